"""Draft heads: over the first tokens in the target, or a head of its own in a draft."""
