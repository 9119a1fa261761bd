"""The JobSet algorithm: decide which Jobs exist, when they start, and how the JobSet ends. Pure.

The rules are upstream's.
"""
