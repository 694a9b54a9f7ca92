"""Cut a piece out of an IR, as a model of its own with only the weights that it needs."""
