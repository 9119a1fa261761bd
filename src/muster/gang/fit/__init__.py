"""Decide how many pods of one shape fit on the nodes, given the other pods and each other. Pure."""
