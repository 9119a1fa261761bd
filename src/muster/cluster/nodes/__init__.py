"""Nodes of the embedded cluster: `process` nodes run pods on this machine, `simulated` ones play them."""
