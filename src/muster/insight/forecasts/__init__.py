"""Forecast when a job starts, whether it ever can, and what a planned object would change. Pure."""
