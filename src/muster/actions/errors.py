"""The error for a user's request that cannot be carried out."""

from typing import Final

# The prefix of the line in which a command reports why it failed.
FAILED: Final = "Error: "


class UserError(Exception):
    """A user's request that cannot be carried out. The message is one line with the reason and the remedy."""
