"""Turn a process of the superuser into a process of a Unix account, before it does anything for that account.

A node of a system server starts each shim, and each command inside a container, in this way. So the process accesses
paths, mounts and other processes with the account's rights. No code runs as the superuser in a place that the account
has prepared.
"""

from __future__ import annotations

import os

from .system import PR_SET_DUMPABLE, call_libc, leave_session_keyring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .spec import ShimAccount


def take_on(identity: ShimAccount | None) -> None:
    """Switch this process to the account permanently. None changes nothing. Raises OSError."""
    if identity is None:
        return
    _load_what_comes_later()
    leave_session_keyring()
    for resource_number, soft, hard in identity["limits"]:
        _set_limit(resource_number, soft, hard)
    os.setgroups(identity["groups"])
    os.setresgid(identity["gid"], identity["gid"], identity["gid"])
    os.setresuid(identity["uid"], identity["uid"], identity["uid"])
    # After a change of user, the kernel gives the process's files in /proc to the superuser; then no user namespace is
    # possible.
    call_libc("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)
    os.chdir("/")


def _load_what_comes_later() -> None:
    """Load modules before the switch of user, because the account may not be able to read this Python's files."""
    from . import attachment  # noqa: F401

    b"".decode("unicode_escape").encode("latin-1")


def _set_limit(number: int, soft: int, hard: int) -> None:
    """Set a resource limit. If this process may not raise the hard limit, as in some containers, keep it."""
    import resource

    try:
        resource.setrlimit(number, (soft, hard))
    except ValueError:
        most = resource.getrlimit(number)[1]
        resource.setrlimit(number, (most if soft == resource.RLIM_INFINITY else min(soft, most), most))
