"""Changes to an IR: annotate, strip, expose and single edits in one transaction; and extraction of pieces."""
