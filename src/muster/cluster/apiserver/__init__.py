"""Serve the Kubernetes API of the embedded cluster: one request pipeline, called over HTTPS and in process."""
