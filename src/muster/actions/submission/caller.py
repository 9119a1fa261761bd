"""Read the user of the caller's process, and what its workers inherit: environment, directory and umask."""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from muster.actions.errors import UserError
from muster.actions.server.home import Home
from muster.actions.server.systemserver import VARIABLE as SOCKET_VARIABLE
from muster.api.ours.umask import DEFAULT_UMASK, UMASK_ANNOTATION, render_umask

# Workers inherit these variables by default, so that they find the same programs.
_PEOPLE = ("HOME", "USER", "LANG", "LC_ALL", "TZ")
_PROGRAMS = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")


def find_account_name() -> str:
    """Return the name of the caller's account on this machine; "" if the account has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


def find_inherited_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of the caller that its workers inherit.

    The caller's `MUSTER_HOME` and `MUSTER_SOCKET` are among them, if set, as absolute paths. So a job submitted by a
    worker goes to the worker's own cluster. Raises `UserError` if `MUSTER_HOME` is no valid path.
    """
    home = {"MUSTER_HOME": str(Home.find(environ).path)} if environ.get("MUSTER_HOME") else {}
    socket = {SOCKET_VARIABLE: str(Path(environ[SOCKET_VARIABLE]).absolute())} if environ.get(SOCKET_VARIABLE) else {}
    return {name: environ[name] for name in (*_PEOPLE, *_PROGRAMS) if name in environ} | home | socket


def make_umask_annotations(status: Path = Path("/proc/self/status")) -> dict[str, str]:
    """Return the annotation with the caller's umask; {} if the umask is unknown or the default of workers.

    status: the kernel's status file of the process. The system call that returns the umask would change it briefly.
    """
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return {}
    umask = next((int(line.split()[1], 8) for line in lines if line.startswith("Umask:")), DEFAULT_UMASK)
    return {UMASK_ANNOTATION: render_umask(umask)} if umask != DEFAULT_UMASK else {}


def find_working_directory(path: str = "") -> str:
    """Return the absolute path of the directory in which workers start.

    path: an absolute path, or one relative to the caller's directory; "" for the caller's directory.

    Raises `UserError` if the caller's directory was deleted.
    """
    if path.startswith("/"):
        return path
    try:
        here = os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        raise UserError("the working directory is no longer there; the workers would start in it") from None
    return os.path.normpath(f"{here}/{path}") if path else here
