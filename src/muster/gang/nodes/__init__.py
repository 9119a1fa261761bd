"""Track the capacity of the nodes and the pods on them, as arrays and indexes that each change updates.

Deterministic.
"""
