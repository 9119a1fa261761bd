"""Find, configure and connect to the server of this user or of this machine."""
