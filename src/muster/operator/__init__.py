"""Runs the engine as an operator of a Kubernetes cluster: it leads or stands by, and answers probes and scrapers."""
