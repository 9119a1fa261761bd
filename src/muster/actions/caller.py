"""What a worker on this machine gets of its caller."""

import os
from collections.abc import Mapping

from muster.actions.errors import UserError
from muster.actions.home import Home

# Without asking: enough to find the same programs.
_INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """What a worker gets of the caller's environment. Raises `UserError` if its home is none.

    The home comes along wherever the worker starts: what is submitted in a job goes to the cluster that it runs in.
    """
    home = {"MUSTER_HOME": str(Home.find(environ).path)} if environ.get("MUSTER_HOME") else {}
    return {name: environ[name] for name in _INHERITED if name in environ} | home


def working_directory(asked: str = "") -> str:
    """Where workers start: where the caller is, in its own spelling, or a path from there.

    Raises `UserError` if that is gone.
    """
    if asked.startswith("/"):
        return asked
    try:
        here = os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        raise UserError("the working directory is no longer there; the workers would start in it") from None
    return os.path.normpath(f"{here}/{asked}") if asked else here
