"""Tracks what the nodes have and which pods are on them, as arrays and indexes updated change by change.

Deterministic.
"""
