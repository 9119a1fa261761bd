"""The shells of level 1: what queues, quotas and Workloads are told, and what is told about them."""
