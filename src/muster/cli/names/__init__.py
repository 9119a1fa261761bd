"""Parse the names and words that users type, and suggest known words for unknown ones."""
