"""Lets JobSets queue."""
