"""Record, summarize and judge the outcome of a simulation's jobs."""
