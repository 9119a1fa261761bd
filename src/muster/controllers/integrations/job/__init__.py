"""Jobs of batch/v1 that queue."""
