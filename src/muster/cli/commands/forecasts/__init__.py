"""Commands by which a user learns what would happen: plans, simulations, and the snapshots that these start from."""
