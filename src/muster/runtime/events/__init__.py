"""What happened to objects, for people to read."""
