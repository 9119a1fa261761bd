"""What is done with a request: read, watch, write, delete."""
