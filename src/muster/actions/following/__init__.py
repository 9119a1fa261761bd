"""Follow jobs and their output while they run."""
