"""Connect to a server: which server, as which user, over which connection."""
