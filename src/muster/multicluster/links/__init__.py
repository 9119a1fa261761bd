"""Connect to worker clusters: connections, kubeconfigs, identities, and caches of the manager's objects there."""
