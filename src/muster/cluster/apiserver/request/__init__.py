"""Read a request: its path, query and body, and the form of its answer."""
