"""Follows jobs and their output while they run."""
