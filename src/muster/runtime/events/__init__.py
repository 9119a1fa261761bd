"""Record occurrences about objects as Events, for people to read."""
