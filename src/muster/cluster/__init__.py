"""The embedded cluster: a store, an API server, nodes, and what a real cluster brings itself."""
