"""What the pages about jobs decide, apart from the requests of a viewer."""
