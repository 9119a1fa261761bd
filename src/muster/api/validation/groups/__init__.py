"""Rules of groups beside the core and batch; a core kind that is one of a family lies with it (volumes in storage)."""
