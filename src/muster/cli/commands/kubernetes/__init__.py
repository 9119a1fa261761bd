"""Commands for a Kubernetes cluster: install and run the engine, take over from Kueue, and add nodes."""
