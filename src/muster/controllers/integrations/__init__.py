"""Lets kinds of jobs queue: what the engine knows of each kind, and the controllers that act on it."""
