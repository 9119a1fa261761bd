"""Muster: a batch system for work that only makes sense all together."""
