"""Read Workloads, and the queues in which they are."""
