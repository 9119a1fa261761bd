"""Lets kinds that serve without an end queue: their pods queue, each alone or as a group."""
