"""The machine of a process node: its resources, and what it allows the node to do."""
