"""Run scenarios in virtual time."""
