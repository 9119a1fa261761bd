"""Decide how many pods of one shape fit on the nodes, beside the pods there and beside each other. Pure."""
