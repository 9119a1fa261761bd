"""The error for requests of users that cannot be carried out."""

from typing import Final

# The start of the line in which a command says why it failed.
FAILED: Final = "Error: "


class UserError(Exception):
    """The error of a user's request that cannot be carried out; the message says in one line why, and what to do."""
