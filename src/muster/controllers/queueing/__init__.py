"""The controllers of level 1 (quota), which read and write queues, quotas and Workloads."""
