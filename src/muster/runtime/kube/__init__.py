"""Reach a server: which one, as which user, over which wire."""
