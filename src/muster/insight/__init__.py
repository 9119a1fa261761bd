"""Describes jobs and queues to people, as values that the command line or a page shows."""
