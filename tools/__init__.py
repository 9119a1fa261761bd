"""Programs for maintainers: they make data that the project ships."""
