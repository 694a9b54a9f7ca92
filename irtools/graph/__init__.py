"""The NetworkX view of one IR, and the matcher for patterns on it."""
