"""Jobs that have ended, as the history keeps them. Pure."""
