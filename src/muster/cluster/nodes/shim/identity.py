"""Turns a process of the superuser into one of a Unix account, before it does anything for that account.

A node of a system server starts each shim, and each command inside a container, in this way. So all that they do with
paths, mounts and processes of the account, they do with the account's rights. No code runs as the superuser in a place
that the account has prepared.
"""

from __future__ import annotations

import os

from .system import PR_SET_DUMPABLE, system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .spec import Command, Identity


def open_cgroups(command: Command) -> list[int]:
    """Return descriptors by which the account can join its container's cgroups; none if it needs none.

    Since Linux 5.16 the kernel checks the rights of the process that opened the file.
    """
    groups = command["cgroups"] if command["identity"] is not None else []
    return [os.open(f"{group}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for group in groups]


def take_on(identity: Identity | None) -> None:
    """Become the account for good; None changes nothing. Raises OSError."""
    if identity is None:
        return
    _load_what_comes_later()
    for resource_number, soft, hard in identity["limits"]:
        _set_limit(resource_number, soft, hard)
    os.setgroups(identity["groups"])
    os.setresgid(identity["gid"], identity["gid"], identity["gid"])
    os.setresuid(identity["uid"], identity["uid"], identity["uid"])
    # After a change of ids the kernel gives the process's files in /proc to the superuser: no user namespace then.
    system("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)
    os.chdir("/")


def _load_what_comes_later() -> None:
    """Load modules while we may: the account may not be able to read this Python."""
    from . import attachment  # noqa: F401

    b"".decode("unicode_escape").encode("latin-1")


def _set_limit(number: int, soft: int, hard: int) -> None:
    """Set a limit; a superuser in a container may not raise the hard one, which then stays."""
    import resource

    try:
        resource.setrlimit(number, (soft, hard))
    except ValueError:
        most = resource.getrlimit(number)[1]
        resource.setrlimit(number, (most if soft == resource.RLIM_INFINITY else min(soft, most), most))
