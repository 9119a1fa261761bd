"""Read small files and directories that this program wrote, and that users may have replaced.

Reading never blocks (as a pipe would) and follows no link. A file must belong to the owner of its directory, because a
user may make a hard link to another user's file. `OddFileError` reports that something else is at the path. An OSError
reports that the path could not be examined.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
# The errors for a link, a socket, an unreadable file, a bad sector, or a file that its user has leased.
_ODD = (errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM, errno.EIO, errno.ENAMETOOLONG, errno.EAGAIN)
_MOST_BYTES = 1 << 20


class OddFileError(Exception):
    """A path that leads to something other than the expected plain file, or to a file that cannot be read."""


@contextmanager
def open_plain_file(path: Path) -> Iterator[int]:
    """Open a file for reading. Raises FileNotFoundError, `OddFileError`, OSError."""
    descriptor = open_file(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(path: Path) -> int:
    """Return a descriptor for reading a file. Raises FileNotFoundError, `OddFileError`, OSError."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno in _ABSENT:
            raise FileNotFoundError(error.errno, error.strerror, str(path)) from None
        raise (OddFileError(str(error)) if error.errno in _ODD else error) from None
    try:
        _require_own_file(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_own_file(descriptor: int, path: Path) -> None:
    """Raise `OddFileError` unless a file is a plain one that belongs to its directory's owner. Raises OSError."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OddFileError(f"{path} is not a file")
    if status.st_uid != path.parent.stat().st_uid:
        raise OddFileError(f"{path} belongs to another user than its directory")


def read(path: Path, limit: int = _MOST_BYTES) -> bytes:
    """Return at most the first `limit` bytes of a file. Raises FileNotFoundError, `OddFileError`, OSError."""
    with open_plain_file(path) as descriptor:
        try:
            return os.read(descriptor, limit)
        except OSError as error:
            raise OddFileError(f"{path}: {error.strerror}") from error


def list_names(directory: Path) -> list[str]:
    """Return the sorted names in a directory; an empty list if it is not a readable directory. Raises OSError."""
    try:
        descriptor = os.open(directory, _FLAGS | os.O_DIRECTORY)
    except OSError as error:
        if error.errno in _ABSENT + _ODD:
            return []
        raise
    try:
        return sorted(os.listdir(descriptor))  # noqa: PTH208 - pathlib knows no descriptors
    finally:
        os.close(descriptor)
