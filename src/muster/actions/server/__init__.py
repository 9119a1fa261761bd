"""Find, configure and reach the server of this user or of this machine."""
