"""Make, list and change queues, teams and users."""
