"""Queue kinds that serve without an end: their pods queue, singly or as a group."""
