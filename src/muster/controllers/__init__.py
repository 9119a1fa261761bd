"""The shells: each reads objects through informers, calls a decision core, and writes its plan."""
