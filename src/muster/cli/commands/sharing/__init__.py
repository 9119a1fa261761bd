"""Commands by which an administrator shares a cluster: its queues, its users, and the clusters behind a queue."""
