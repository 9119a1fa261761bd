"""Let clusters join a manager and leave it."""
