"""Commands by which a user submits work: a gang, a shell, or manifests."""
