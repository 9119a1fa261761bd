"""Simulate a cluster in virtual time: the engine's own decisions, for the work and machines of a scenario."""
