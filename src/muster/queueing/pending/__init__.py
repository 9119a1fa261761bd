"""The workloads that wait for quota, and their order."""
