"""Queue jobs of other projects' kinds: each kind is a few lines of data in `kinds`."""
