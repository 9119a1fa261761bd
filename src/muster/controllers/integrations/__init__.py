"""Queue jobs of many kinds: the adapter for each kind, and the controllers that use them."""
