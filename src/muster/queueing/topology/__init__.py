"""Topology aware scheduling: quota that is assigned together with places for the pods (Kueue KEP-2724)."""
