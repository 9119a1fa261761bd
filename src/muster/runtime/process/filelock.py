"""Lock a file until the holder exits. Others can test the lock without interfering.

The lock is the kernel's lock on an open file description (F_OFD_SETLK). It is released when the holder's last
descriptor is closed, however the holder exits. Testing (F_OFD_GETLK) takes no lock, so that a process that wants the
lock gets it.
"""

import fcntl
import os
import struct

_FLOCK = struct.Struct("hhqqi4x")  # struct flock: type, whence, start, length, pid
_WHOLE_FILE = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def take(descriptor: int) -> None:
    """Lock the file for all processes with this descriptor. Raises `BlockingIOError` if it is locked, `OSError`."""
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE)


def is_taken(descriptor: int) -> bool:
    """Return whether another process has locked the file; the descriptor may be read-only. Raises `OSError`."""
    kind, *_ = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _WHOLE_FILE))
    return bool(kind != fcntl.F_UNLCK)
