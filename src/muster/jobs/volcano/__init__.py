"""The algorithm of Volcano's Jobs: decides from a Job and its pods what to do. Pure."""
