"""Commands that forecast: plans, simulations, and the snapshots with which these start."""
