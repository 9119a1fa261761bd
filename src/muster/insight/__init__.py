"""Describe jobs and queues to users, as values that the command line or a page shows."""
