"""Jobs and their output, followed while they go on."""
