"""Queue JobSets."""
