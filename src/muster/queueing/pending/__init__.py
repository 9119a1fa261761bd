"""Workloads that wait for quota, and their order."""
