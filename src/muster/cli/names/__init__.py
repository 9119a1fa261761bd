"""Parses the names and words that users type, and suggests known ones for unknown ones."""
