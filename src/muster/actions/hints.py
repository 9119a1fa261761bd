"""Remembers in the user's home which hints the user has had, so that a command gives each hint once."""

from contextlib import suppress

from muster.actions.errors import UserError
from muster.actions.home import Home

NO_GPUS = "no-gpus"


def is_known(home: Home, hint: str) -> bool:
    """Return whether the user has had a hint."""
    return (home.path / f"hint-{hint}").exists()


def remember(home: Home, hint: str) -> None:
    """Record that the user has had a hint. Without a home that can be written, the hint comes again."""
    with suppress(UserError):
        home.make()  # a user of somebody else's server has none yet
    try:
        (home.path / f"hint-{hint}").touch(mode=0o600)
    except OSError:
        return
