"""Lets jobs of other projects' kinds queue: each kind is a few lines of data in `kinds`."""
