"""The nodes of the embedded cluster.

`process` nodes run pods on this machine; `simulated` nodes run nothing and only report made-up pod statuses.
"""
