"""Change submitted jobs, and explain their state."""
