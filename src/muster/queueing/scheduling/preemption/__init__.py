"""Whom to displace so that a workload can have its quota."""
