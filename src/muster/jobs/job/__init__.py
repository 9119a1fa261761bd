"""The Job algorithm: decide from a Job and its pods what to create, delete and write. Pure."""
