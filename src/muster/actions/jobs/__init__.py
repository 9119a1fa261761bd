"""Change jobs that were submitted."""
