"""The standard streams of a command: whatever becomes of them, the user gets a line and an exit code.

Output that cannot be written ends the command. A remark that cannot be written is dropped: there is nowhere to say so.
"""

import errno
import io
import os
import select
import sys
from collections.abc import Callable
from typing import Any, TextIO

# What a shell reports of a program that wrote to a pipe without a reader.
BROKEN_PIPE_CODE = 141

_IN, OUT, _ERR = 0, 1, 2


class OutputError(Exception):
    """Output could not be written. It is no OSError, so that it is not taken for one of the work itself."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"cannot write the output: {cause.strerror}")
        self.exit_code = BROKEN_PIPE_CODE if cause.errno == errno.EPIPE else 1


class _Stream(io.FileIO):
    """Waits where it would block: who shares our terminal may have asked the kernel not to."""

    def write(self, data: Any) -> int:
        while (written := super().write(data)) is None:
            waiting = select.poll()
            waiting.register(self.fileno(), select.POLLOUT)
            waiting.poll()
        return written


class _Output(_Stream):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(error) from None


class _Remarks(_Stream):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def protect() -> None:
    """Make the streams of this process so; before it opens any file, which might become one of them."""
    # What is closed is opened the wrong way round: using it is an error, and no file of ours takes its place.
    for descriptor, mode in ((_IN, os.O_WRONLY), (OUT, os.O_RDONLY), (_ERR, os.O_WRONLY)):
        if _is_closed(descriptor):
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest that is free, which is this one
    if sys.stdin is None:
        sys.stdin = open(_IN, closefd=False)  # noqa: SIM115 - it stays
    sys.stdout = _text(_Output, OUT, sys.stdout)
    sys.stderr = _text(_Remarks, _ERR, sys.stderr)


def raw_of(stream: TextIO) -> io.RawIOBase:
    """What lies below a stream, for output: where a remark would be dropped, its loss is an `OutputError`."""
    raw: io.RawIOBase = stream.buffer.raw  # type: ignore[attr-defined]
    return _Output(raw.fileno(), "w", closefd=False) if isinstance(raw, _Remarks) else raw


def give_up_output() -> None:
    """Let what is still to be written go nowhere: it would be tried again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), OUT)


def _is_closed(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False


def _text(kind: Callable[..., io.FileIO], descriptor: int, before: Any) -> io.TextIOWrapper:
    """Text as the user's locale writes it; what that cannot write is escaped."""
    raw = kind(descriptor, "w", closefd=False)
    encoding = getattr(before, "encoding", None) or "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace", line_buffering=raw.isatty()
    )
