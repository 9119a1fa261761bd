"""Parse a request: its path, query and body, and the format of its response."""
