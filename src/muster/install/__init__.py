"""Write the documents to install on a Kubernetes cluster with `kubectl apply --server-side`. Pure."""
