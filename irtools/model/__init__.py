"""An export: its files, parts, config, annotation, weights, and what the runtime expects of them."""
