"""Run the engine as an operator of a Kubernetes cluster: lead or stand by, and answer probes and scrapers."""
