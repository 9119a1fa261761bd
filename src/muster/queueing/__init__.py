"""Level 1, quota: who gets how much of what, in which order, at whose expense. Pure."""
