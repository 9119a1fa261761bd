"""The controllers of level 1, which read and write queues, quotas and Workloads."""
