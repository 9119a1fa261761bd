"""The pairing of a job of any kind with its Workload."""
