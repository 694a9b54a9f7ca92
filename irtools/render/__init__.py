"""Pictures: dot, svg, png, pdf."""
