"""The Job algorithm: from a job and its pods to what must be created, deleted and written. Pure."""
