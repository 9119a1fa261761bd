"""Defines what users write: typed objects by API group, with their defaults, validation and wording. Pure.

Nothing in here does I/O, reads a clock or knows who calls it.
"""
