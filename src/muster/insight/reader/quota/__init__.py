"""Read Workloads, and the queues that hold them."""
