"""Decides the defaults, rules and gates of objects that queue when they are written. Pure."""
