"""Record what happened to objects as Events, for people to read."""
