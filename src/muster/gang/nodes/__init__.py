"""What the nodes have and what is on them: arrays and indexes, kept up to date change by change. Deterministic."""
