"""Many exports: found, worked on in processes or on a cluster."""
