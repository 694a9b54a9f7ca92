"""What changes an IR: annotate, strip, and single edits, all of it through one transaction; and extract."""
