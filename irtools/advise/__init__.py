"""Advise on the size of a draft head: coverage of texts, bytes, expected tokens per pass, calibrated speeds."""
