"""Let clusters join and leave a manager."""
