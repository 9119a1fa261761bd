"""The API groups that configure an API server: rights, kinds, webhooks and policies."""
