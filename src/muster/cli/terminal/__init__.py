"""The layer between commands and the user's terminal: streams, colours, progress."""
