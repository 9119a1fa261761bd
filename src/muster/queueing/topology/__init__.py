"""Topology-aware scheduling: assign quota together with topology domains for the pods (Kueue KEP-2724)."""
