"""Parse the names and words that users type, and suggest known ones for unknown ones."""
