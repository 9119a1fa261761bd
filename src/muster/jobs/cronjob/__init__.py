"""Decide what a CronJob starts, replaces and removes. Pure."""
