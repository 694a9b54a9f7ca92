"""The built-in rule packs: rules, patterns, model families and symptoms, which the registry discovers."""
