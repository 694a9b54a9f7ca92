"""Render pictures as DOT, SVG, PNG or PDF."""
