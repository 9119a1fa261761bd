"""Level 1, quota: which queue gets how much of each resource, in which order, and at whose expense. Pure."""
