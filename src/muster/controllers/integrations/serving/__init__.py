"""Queue kinds that serve without an end: their pods queue, each alone or as a group."""
