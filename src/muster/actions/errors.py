"""The error of who asked for what cannot be."""


class UserError(Exception):
    """What a user asked for cannot be done; its text says why, and what to do, in one line."""
