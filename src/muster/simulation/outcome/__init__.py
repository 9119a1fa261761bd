"""Keeps, sums up and judges what became of the jobs of a simulation."""
