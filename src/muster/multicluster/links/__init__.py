"""Reach worker clusters: their connections, kubeconfigs and identities, and caches of the manager's objects there."""
