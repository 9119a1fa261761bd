"""Decide which gang starts first.

That includes the room reserved for the head of the queue, the gangs that may pass it, and the gangs that it preempts.
Deterministic.
"""
