"""Let plain pods queue, alone and in groups (Kueue KEP-976)."""
