"""What is to be installed on a Kubernetes cluster, as documents: pure functions, for `kubectl apply --server-side`."""
