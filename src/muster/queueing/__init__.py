"""Level 1, quota: decide which workloads get how much of each resource, in which order, and which are preempted.

Pure.
"""
