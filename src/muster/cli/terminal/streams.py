"""The standard streams of a command. Every failure of a stream ends in a message and an exit code.

Output that cannot be written ends the command. A remark that cannot be written is dropped, because there is no other
place to report it.
"""

import errno
import io
import os
import select
import sys
from collections.abc import Callable
from typing import Any, TextIO

# The exit code that a shell reports for a program killed by SIGPIPE.
BROKEN_PIPE_CODE = 141

_IN, OUT, _ERR = 0, 1, 2


class OutputError(Exception):
    """A failed write of output.

    The class is not an OSError, so that no handler mistakes it for a failure of the work itself.
    """

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"cannot write the output: {cause.strerror}")
        self.exit_code = BROKEN_PIPE_CODE if cause.errno == errno.EPIPE else 1


class _Stream(io.FileIO):
    """A file whose writes wait instead of failing with EAGAIN.

    A program that shares the terminal may have made the terminal non-blocking.
    """

    def write(self, data: Any) -> int:
        while (written := super().write(data)) is None:
            waiting = select.poll()
            waiting.register(self.fileno(), select.POLLOUT)
            waiting.poll()
        return written


class _Output(_Stream):
    """A stream whose failed writes raise `OutputError`."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(error) from None


class _Remarks(_Stream):
    """A stream for remarks. It drops remarks that cannot be written."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def replace_streams() -> None:
    """Replace the standard streams of this process by the streams of this module.

    Call it before the process opens any file, because a file could get the number of a closed stream.
    """
    # A closed stream is opened in the wrong direction: using it fails, and no other file gets its number.
    for descriptor, mode in ((_IN, os.O_WRONLY), (OUT, os.O_RDONLY), (_ERR, os.O_WRONLY)):
        if _is_closed(descriptor):
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest free number is this descriptor
    if sys.stdin is None:
        sys.stdin = open(_IN, closefd=False)  # noqa: SIM115 - it stays
    sys.stdout = _make_text_stream(_Output, OUT, sys.stdout)
    sys.stderr = _make_text_stream(_Remarks, _ERR, sys.stderr)


def raw_of(stream: TextIO) -> io.RawIOBase:
    """Return the raw file below an output stream.

    For a stream of remarks, which drops failed writes, the raw file raises `OutputError` for them.
    """
    raw: io.RawIOBase = stream.buffer.raw  # type: ignore[attr-defined]
    return _Output(raw.fileno(), "w", closefd=False) if isinstance(raw, _Remarks) else raw


def give_up_output() -> None:
    """Discard all further output, including buffered output, which Python would otherwise try to write at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), OUT)


def _is_closed(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False


def _make_text_stream(kind: Callable[..., io.FileIO], descriptor: int, before: Any) -> io.TextIOWrapper:
    """Return a text stream in the user's locale that escapes characters which the locale cannot encode."""
    raw = kind(descriptor, "w", closefd=False)
    encoding = getattr(before, "encoding", None) or "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace", line_buffering=raw.isatty()
    )
