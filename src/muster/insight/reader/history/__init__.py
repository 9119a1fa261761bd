"""Read what is over: past runs, and the decisions of the engine."""
