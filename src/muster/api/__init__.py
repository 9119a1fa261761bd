"""The types of the objects that users write, by API group, with their defaults, validation and conversion.

All functions are pure: nothing in this package does I/O, reads a clock or depends on its caller.
"""
