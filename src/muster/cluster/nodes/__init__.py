"""The nodes of the embedded cluster.

Nodes of kind `process` run pods as processes of this machine. Nodes of kind `simulated` run nothing, and report made-up
pod statuses.
"""
