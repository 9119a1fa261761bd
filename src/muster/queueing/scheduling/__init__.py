"""The admission cycle, which decides what workloads get quota now."""
