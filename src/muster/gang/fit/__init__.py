"""How pods of one shape fit on the nodes, beside the pods that are there and each other. Pure."""
