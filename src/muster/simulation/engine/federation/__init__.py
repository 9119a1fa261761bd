"""Simulate a MultiKueue manager and its worker clusters."""
