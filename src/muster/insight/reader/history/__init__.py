"""Read the past: ended runs, and the decisions of the engine."""
