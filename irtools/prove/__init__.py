"""Prove an export by running it: taps, state, head, speculative decoding."""
