"""MultiKueue: one queue in front of many clusters (Kueue KEP-693).

A job runs whole in the first cluster that admits it.
"""
