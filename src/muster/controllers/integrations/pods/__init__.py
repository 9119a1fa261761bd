"""Plain pods that queue, alone and in groups (KEP-976)."""
