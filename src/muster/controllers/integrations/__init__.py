"""Kinds of jobs that queue."""
