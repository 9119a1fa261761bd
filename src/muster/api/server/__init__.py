"""The groups that govern an API server: rights, kinds, webhooks and policies."""
