"""Who goes first: what is reserved for the gang at the head, who may pass it, and whom it displaces. Deterministic."""
