"""A job of any kind and its Workload."""
