"""One pod on its node: the facts about it, the actions on it, and the status that the node reports."""
