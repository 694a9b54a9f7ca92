"""The built-in rule packs: patterns, checks and MTP head profiles, which the registry discovers."""
