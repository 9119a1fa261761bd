"""The lifecycle of one Workload, and its conditions."""
