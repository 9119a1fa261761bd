"""The machine of a process node: its resources, and the rights of the node there."""
