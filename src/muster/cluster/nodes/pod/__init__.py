"""One pod on its node: its state, the actions on it, and the status that the node reports."""
