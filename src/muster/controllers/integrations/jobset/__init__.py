"""JobSets that queue."""
