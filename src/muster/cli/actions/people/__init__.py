"""Make the queues of teams, and add, list and remove users."""
