"""Stored objects: their documents, their metadata, and what the server sets in them."""
