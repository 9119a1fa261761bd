"""Plays scenarios in virtual time."""
