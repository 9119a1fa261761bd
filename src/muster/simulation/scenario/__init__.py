"""Define scenarios, read them with their files, and turn their work into jobs."""
