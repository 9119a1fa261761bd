"""Topology aware scheduling: quota that is given together with places for the pods (KEP-2724)."""
