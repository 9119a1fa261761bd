"""Turn an operating system error into a message for the pod's user: the path, the failure, and what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.runtime.process.fulldisk import has_no_room

# The shell command that shows the limit which a process has reached, by the system's error.
_LIMITS = {errno.EMFILE: "ulimit -Hn", errno.EAGAIN: "ulimit -u"}


@contextmanager
def naming_path(path: Path) -> Iterator[None]:
    """Set the file name of errors from the `with` block that have none.

    A write to a descriptor fails without the name of its file.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def describe_os_error(error: OSError) -> str:
    """Return the message of an operating system error for users.

    Errors without a file name come from Muster, and are complete sentences already.
    """
    if not error.filename:
        return describe_reason(error)
    if has_no_room(error):  # the advice comes first, because lists cut long messages
        disk = _find_mount_point(Path(error.filename))
        figures = f"df -h and df -i of {disk}" if error.errno == errno.ENOSPC else "quota -s"
        return (
            f"{error.strerror} on {disk}: free some there (see {figures}), and the pod continues by "
            f"itself; the node could not write {error.filename}"
        )
    if error.errno in _LIMITS:
        return f"{describe_reason(error)}; the node could not open {error.filename}"
    return f"{error.filename}: {error.strerror}"


def describe_reason(error: OSError) -> str:
    """Return the system's text of an error without its path. If a limit of the server is reached, add advice."""
    reason = error.strerror or str(error)
    command = _LIMITS.get(error.errno or 0)
    return f"{reason}: start the server again, in a shell where {command} shows more" if command else reason


def _find_mount_point(path: Path) -> Path:
    """Return the directory at which the file system of a path is mounted."""
    return next(directory for directory in (path.absolute(), *path.absolute().parents) if directory.is_mount())
