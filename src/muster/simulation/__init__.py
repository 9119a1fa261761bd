"""Simulate a cluster in virtual time, with the engine's own decisions, for the jobs and nodes of a scenario."""
