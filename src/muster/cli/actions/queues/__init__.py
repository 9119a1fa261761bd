"""Make, list and change queues."""
