"""The rules of the kinds that govern an API server."""
