"""Exports at a URL: files and byte ranges, kept in a cache."""
