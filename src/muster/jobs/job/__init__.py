"""The Job algorithm: from a Job and its pods to what must be created, deleted and written. Pure."""
