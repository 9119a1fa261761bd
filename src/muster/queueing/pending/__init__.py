"""Who waits for quota, and in which order."""
