"""The admission cycle, which decides which workloads get quota now."""
