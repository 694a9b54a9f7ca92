"""Compare two exports, or two IRs, by structure."""
