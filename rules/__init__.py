"""The built-in rule packs: patterns, checks and MTP head profiles, found by discovery."""
