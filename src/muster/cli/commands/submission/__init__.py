"""Commands with which a user submits work: a gang, a shell, or manifests."""
