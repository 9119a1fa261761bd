"""Decides which gang starts first.

What is reserved for the head, who may pass it, and whom it displaces. Deterministic.
"""
