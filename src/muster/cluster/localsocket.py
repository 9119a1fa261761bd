"""Bind the local sockets of a server, in directories that only the server's user can change.

A system server has one socket for all users of the machine. Every server has one in its home for its own user.
"""

import logging
import os
import socket
import stat
from pathlib import Path

from msgspec import Struct

from muster.cluster.apiserver.front.listener import AddressTaken, AddressUnusable
from muster.runtime.process.ownership import NotOursError, require_way

log = logging.getLogger(__name__)


class AddressForeign(AddressUnusable):
    """A path at which another user has put a socket. The message names that user."""


# All users may connect, because the kernel tells the server the user ID of each client.
FOR_ALL = 0o666
# Only the user of the server may connect.
FOR_OWNER = 0o600


def bind_local(path: Path, mode: int = FOR_ALL) -> socket.socket:
    """Return a socket bound to a path. A socket on which no process listens is replaced. Raises `AddressUnusable`."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        _require_directory(path.parent)
        _require_free(path)
        new.unlink(missing_ok=True)
        listener.bind(str(new))
        new.chmod(mode)
        new.rename(path)
    except AddressUnusable:
        listener.close()
        raise
    except (NotOursError, OSError) as error:
        listener.close()
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise AddressUnusable(f"cannot listen on {path}: {why}") from error
    return listener


class LocalSocket(Struct, frozen=True):
    """A bound socket, with its path, and the file's identity from `identify_file`."""

    path: Path
    listener: socket.socket
    file: tuple[int, int]

    @classmethod
    def bind(cls, path: Path, mode: int) -> "LocalSocket":
        """Bind a socket as `bind_local` does. Raises `AddressUnusable`."""
        listener = bind_local(path, mode)
        return cls(path, listener, identify_file(path))

    def close(self) -> None:
        """Close the socket and remove it."""
        self.listener.close()
        remove_local(self.path, self.file)


def identify_file(path: Path) -> tuple[int, int]:
    """Return the device and the inode of a file, which identify it while it exists. Raises OSError."""
    status = path.lstat()
    return status.st_dev, status.st_ino


def remove_local(path: Path, file: tuple[int, int]) -> None:
    """Remove the socket of a server that stops, unless the path now has another server's socket.

    Otherwise clients would wait for a socket that no process serves.

    file: the result of `identify_file` when the socket was bound.
    """
    try:
        if identify_file(path) == file:
            path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("the socket %s cannot be removed: %s", path, error.strerror)


def _require_directory(directory: Path) -> None:
    """Raise `NotOursError` if another user could put a socket into a directory.

    Raises OSError if it cannot be examined.
    """
    status = require_way(directory)
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotOursError(f"other users can change {directory}: choose another directory with --socket")


def _require_free(path: Path) -> None:
    """Raise an error unless the path is free, or has a socket of this user on which no process listens any more.

    Raises `AddressTaken` if a process listens there, `AddressForeign` for another user's socket, `AddressUnusable` for
    a file that is no socket, and OSError.
    """
    if not os.path.lexists(path):
        return
    status = path.lstat()
    if not stat.S_ISSOCK(status.st_mode):
        raise AddressUnusable(f"cannot listen on {path}: it is no socket; remove it")
    if status.st_uid != os.geteuid():
        raise AddressForeign(f"{path} is a socket of the user with the id {status.st_uid}: find out why, and remove it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return  # the socket file of a server that has exited
    raise AddressTaken(f"another process listens on {path}: stop it or choose another socket with --socket")
