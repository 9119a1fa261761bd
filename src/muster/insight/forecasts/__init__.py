"""Forecasts when a job starts, whether it ever can, and what a plan would change. Pure."""
