"""The embedded cluster: a store, an API server, nodes, and the controllers of kube-controller-manager."""
