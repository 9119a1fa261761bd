"""Writes the documents to install on a Kubernetes cluster: pure functions, for `kubectl apply --server-side`."""
