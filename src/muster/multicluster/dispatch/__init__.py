"""Decide about one workload that is dispatched to another cluster. Pure."""
