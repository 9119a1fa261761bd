"""Pair a job of any kind with its Workload."""
