"""The machine of a process node: what it has, and what it lets us do."""
