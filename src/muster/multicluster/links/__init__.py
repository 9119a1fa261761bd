"""Reach worker clusters: their connections, kubeconfigs and identities, and the copies of what they hold."""
