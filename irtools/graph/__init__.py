"""NetworkX view of one IR, and a pattern matcher on that view."""
