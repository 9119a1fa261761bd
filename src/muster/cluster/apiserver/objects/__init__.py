"""Stored objects: their documents, their metadata, and the fields that the server sets in them."""
