"""Workloads that change size while they run."""
