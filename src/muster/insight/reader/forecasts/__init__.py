"""Read the inputs of forecasts: why a job waits, and what would happen to objects that do not exist yet."""
