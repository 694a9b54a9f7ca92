"""What changes an IR: annotate, strip."""
