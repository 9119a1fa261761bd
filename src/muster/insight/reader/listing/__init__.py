"""Read the lists of a cluster: as far as the user may see them, each once, and in little memory."""
