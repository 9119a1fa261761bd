"""The rules of Jobs."""
