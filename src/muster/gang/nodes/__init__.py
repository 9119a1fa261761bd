"""Track the capacity of the nodes and the pods on them, as arrays and indexes updated change by change.

Deterministic.
"""
