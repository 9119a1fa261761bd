"""The JobSet algorithm.

Decides which Jobs exist, when they start, and how the JobSet ends. Pure; the rules are upstream's.
"""
