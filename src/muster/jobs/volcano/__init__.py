"""The algorithm of Volcano's Jobs: decide from a Job and its pods what to do. Pure."""
