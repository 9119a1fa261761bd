"""Record in the user's home which hints were shown, so that each hint is shown only once."""

from contextlib import suppress

from muster.actions.errors import UserError
from muster.actions.server.home import Home

NO_GPUS = "no-gpus"


def is_known(home: Home, hint: str) -> bool:
    """Return whether the hint has been shown to the user before."""
    return (home.path / f"hint-{hint}").exists()


def remember(home: Home, hint: str) -> None:
    """Record that a hint was shown. If the home is not writable, the hint is shown again next time."""
    with suppress(UserError):
        home.make()  # a user of another user's server has no home directory yet
    try:
        (home.path / f"hint-{hint}").touch(mode=0o600)
    except OSError:
        return
