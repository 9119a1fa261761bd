"""What a request asks for: its path, its query, its body, and the form of its answer."""
