"""The embedded cluster: a store, an API server, nodes, and the controllers that a real cluster has."""
