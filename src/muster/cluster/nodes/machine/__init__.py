"""The machine of a process node: its resources, and the isolation of containers on it."""
