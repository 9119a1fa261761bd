"""Commands with which an administrator shares a cluster: its queues, its users, and worker clusters behind a queue."""
