"""Queue Jobs of batch/v1."""
