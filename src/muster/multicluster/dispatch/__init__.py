"""Decides about one workload that goes to another cluster. Pure."""
