"""Rules, findings, and running rules over an export."""
