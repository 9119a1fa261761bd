"""Lock a file until the holder ends; others can test the lock without getting in the way.

The lock is the kernel's, of an open file description (F_OFD_SETLK): it is released when the holder's last descriptor
is closed, however the holder ends. Testing (F_OFD_GETLK) takes nothing: a process that wants the lock gets it.
"""

import fcntl
import os
import struct

_FLOCK = struct.Struct("hhqqi4x")  # struct flock: type, whence, start, length, pid
_WHOLE_FILE = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def take(descriptor: int) -> None:
    """Lock the file, for all who hold this descriptor. Raises `BlockingIOError` if it is locked, `OSError`."""
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE)


def is_taken(descriptor: int) -> bool:
    """Return whether another process has locked the file; the descriptor may be read-only. Raises `OSError`."""
    kind, *_ = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _WHOLE_FILE))
    return bool(kind != fcntl.F_UNLCK)
