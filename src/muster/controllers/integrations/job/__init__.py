"""Lets Jobs of batch/v1 queue."""
