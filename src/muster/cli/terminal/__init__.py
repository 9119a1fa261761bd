"""What stands between a command and its user: streams, colours, progress."""
