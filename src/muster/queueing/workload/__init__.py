"""What becomes of one Workload, and its conditions."""
