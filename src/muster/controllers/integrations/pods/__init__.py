"""Let plain pods queue, singly and in groups (Kueue KEP-976)."""
