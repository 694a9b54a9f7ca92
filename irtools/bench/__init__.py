"""Measure how fast an export generates, plainly and with each kind of draft, and decide whether to draft."""
