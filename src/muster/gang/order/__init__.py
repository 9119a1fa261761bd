"""Decide which gang starts first.

This includes the room that is reserved for the head of the queue, the gangs that may pass the head, and the gangs that
it preempts. Deterministic.
"""
