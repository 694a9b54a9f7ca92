"""Blocks of a located decoder stack: token mixers, feed-forward blocks, norms, and their descriptions."""
