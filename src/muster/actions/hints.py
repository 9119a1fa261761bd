"""Record in the user's home which hints were shown, so that each hint is shown once."""

from contextlib import suppress

from muster.actions.errors import UserError
from muster.actions.server.home import Home

NO_GPUS = "no-gpus"


def is_known(home: Home, hint: str) -> bool:
    """Return whether the user has been shown a hint before."""
    return (home.path / f"hint-{hint}").exists()


def remember(home: Home, hint: str) -> None:
    """Record that a hint was shown. If the home cannot be written, the hint is shown again."""
    with suppress(UserError):
        home.make()  # a user of somebody else's server has none yet
    try:
        (home.path / f"hint-{hint}").touch(mode=0o600)
    except OSError:
        return
