"""Write the container's log in the format of the container runtimes, `<time> <stream> <tag> <text>`, and rotate it.

The files are `log.<number>.<bytes>`. Numbers count up from 0, and bytes is the size of all text logged before the file.
So the names alone show the order of the files, whether one is missing, and how much is lost. Only the newest file is
written to.

A reader holds a shared lock on its file (flock). While the oldest file has a reader, it is not deleted, and the
container's output waits in its pipe. The wait ends when the reader has moved on, or after a limit.

A line that stays unfinished (a progress bar) is logged in parts, so that readers see it grow.

Lost lines (a full disk) never stop the container. The log counts them, and mentions them when the disk has room again.
If the disk stays full, the exit record mentions them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import time

from .system import describe_error, try_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NAME = "log"
# Longer lines are cut into parts with the tag P. The last part of a line has the tag F.
LINE_BYTES = 16384
READ_BYTES = 1 << 18
# How long an unfinished line is held back, so that a line written in pieces stays one line of the log.
HOLD_SECONDS = 0.02
# The interval at which the log checks whether a reader has moved on: at first, and at most.
_LOOK_SECONDS, _LOOK_SELDOM_SECONDS = 0.002, 0.1


class Stream:
    """One output stream of the container. It cuts the output into lines."""

    def __init__(self, name: bytes, show: Callable[[bytes], None] | None = None) -> None:
        self.name = name
        self.show = show  # sends output to the attached clients
        self._rest = b""  # an unfinished line, shorter than LINE_BYTES
        self._held_since = 0.0  # since when the rest is held back

    def cut(self, data: bytes, now: float) -> list[tuple[bytes, bytes]]:
        """Return the pieces of output to log now, as (tag, text): the held-back part of a line, and the new data.

        A text is a part of a line (P), or whole lines (F).

        now: the monotonic time in seconds.
        """
        had_rest = bool(self._rest)
        data = self._rest + data
        pieces: list[tuple[bytes, bytes]] = []
        whole = at = 0  # the start of the whole lines found so far, and their end
        end = data.rfind(b"\n") + 1
        while at < end:
            last = data.rfind(b"\n", at, at + LINE_BYTES + 1)
            if last < 0:
                if at > whole:
                    pieces.append((b"F", data[whole:at]))
                pieces.append((b"P", data[at : at + LINE_BYTES]))
                whole = at = at + LINE_BYTES
            else:
                at = last + 1
        if at > whole:
            pieces.append((b"F", data[whole:at]))
        while len(data) - at >= LINE_BYTES:
            pieces.append((b"P", data[at : at + LINE_BYTES]))
            at += LINE_BYTES
        self._rest = data[at:]
        if pieces or not had_rest:
            self._held_since = now
        return pieces

    def due(self, now: float) -> float | None:
        """Return after how many seconds the held-back part of a line must be logged; None if nothing is held back."""
        return max(self._held_since + HOLD_SECONDS - now, 0.0) if self._rest else None

    def end(self) -> list[tuple[bytes, bytes]]:
        """Return the held-back part of a line, because it is due or the stream has ended; [] if there is none."""
        rest, self._rest = self._rest, b""
        return [(b"P", rest)] if rest else []


class Log:
    """The files of a log in a directory, given as a descriptor.

    limit_bytes: the size at which the next file starts.
    files: how many files are kept.
    patience_seconds: how long the log waits for a reader of the oldest file before it deletes the file; negative for no
    limit.
    """

    def __init__(self, directory: int, limit_bytes: int, files: int, patience_seconds: float) -> None:
        self.lost = 0  # lines
        self.trouble = ""  # why they were lost
        self._directory = directory
        self._limit = limit_bytes
        self._most = files
        self._patience = patience_seconds
        self._files: list[str] = []  # names of the files, oldest first
        self._begun = 0  # how many files have been begun
        self._text_bytes = 0  # how many bytes of text have been logged
        self._descriptor = -1
        self._size = 0
        self._is_torn = False  # the last line in the file has no end
        self._appended_lines = 0  # how many lines of the last append are in the file
        self._mentioned = 0  # how many of the lost lines the log itself mentions
        self._now = 0  # the time of the newest line
        self._waiting_since = 0.0  # since when the log waits for the oldest file's reader; 0 if it does not

    def copy(self, descriptor: int, stream: Stream) -> bool:
        """Log the data that can be read from the descriptor now; return False at the end of the stream."""
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno != errno.EIO:  # a terminal that no process has open any more
                raise
            data = b""
        if data and stream.show is not None:
            stream.show(data)
        self.write(stream.name, stream.cut(data, time.monotonic()) if data else stream.end())
        return bool(data)

    def flush(self, streams: Iterable[Stream]) -> float | None:
        """Log the unfinished lines that are due; return the seconds until the next is due, None if there is none."""
        now, next_due = time.monotonic(), None
        for stream in streams:
            due = stream.due(now)
            if due == 0:
                self.write(stream.name, stream.end())
            elif due is not None:
                next_due = due if next_due is None else min(due, next_due)
        return next_due

    def drain(self, descriptor: int, stream: Stream) -> None:
        """Log the remaining data in the pipe of a stream whose writers have exited.

        The first read of an empty pipe ends the stream, because no more output can come. From now on, the log does not
        rotate: a rotation might have to wait for a reader, and the remaining data is at most what a pipe holds.
        """
        self._limit = 1 << 62
        while select.select([descriptor], [], [], 0)[0] and self.copy(descriptor, stream):
            pass
        self.write(stream.name, stream.end())

    def pause(self) -> float:
        """Return 0.0 if output can be logged now, or for how many seconds the caller must leave output in its pipe.

        Output has to wait if logging it would delete a file that has a reader. After a long wait that file is deleted
        anyway.
        """
        if self._size < self._limit or len(self._files) < self._most or self._forget_oldest():
            self._waiting_since = 0.0
            return 0.0
        now = time.monotonic()
        self._waiting_since = self._waiting_since or now
        waited = now - self._waiting_since
        if 0 <= self._patience <= waited:
            self._waiting_since = 0.0
            self._forget_oldest(even_if_read=True)
            return 0.0
        return min(max(waited, _LOOK_SECONDS), _LOOK_SELDOM_SECONDS)

    def write(self, stream: bytes, pieces: list[tuple[bytes, bytes]]) -> None:
        """Append lines to the log, or count them as lost."""
        if not pieces:
            return
        head = self._make_next_stamp() + b" " + stream + b" "
        parts, text_bytes = [], 0
        for tag, text in pieces:
            mark = head + tag + b" "
            parts.append(mark + text[:-1].replace(b"\n", b"\n" + mark) + b"\n" if tag == b"F" else mark + text + b"\n")
            text_bytes += len(text)
        data = b"".join(parts)
        try:
            self.tell_losses()
            self._append(data)
            self._text_bytes += text_bytes
        except OSError as error:
            self.trouble = describe_error(error)
            self.lost += data.count(b"\n") - max(self._appended_lines, 0)

    @property
    def untold(self) -> int:
        """The number of lost lines that the log does not mention yet."""
        return self.lost - self._mentioned

    def tell_losses(self) -> None:
        """Write a notice of lost lines into the log. Raises OSError."""
        if self.untold:
            text = f"[muster: {self.untold} lines are missing here: {self.trouble}]\n".encode()
            self._append(self._make_next_stamp() + b" stderr F " + text)
            self._text_bytes += len(text)
            self._mentioned = self.lost

    def _append(self, data: bytes) -> None:
        self._appended_lines = 0
        if self._descriptor < 0 or self._size >= self._limit:
            self._rotate()
        if self._is_torn:
            data = b"\n" + data
        self._appended_lines = -1 if self._is_torn else 0
        while data:
            written = os.write(self._descriptor, data)
            self._size += written
            self._is_torn = data[written - 1] != 0x0A
            self._appended_lines += data[:written].count(b"\n")
            data = data[written:]

    def _rotate(self) -> None:
        """Start a new file. The files exceed their maximum number by one only if the caller ignored a `pause`."""
        name = f"{NAME}.{self._begun}.{self._text_bytes}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(name, flags, 0o600, dir_fd=self._directory)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._size, self._is_torn = descriptor, 0, False
        self._files.append(name)
        self._begun += 1
        while len(self._files) > self._most and self._forget_oldest():
            pass

    def _forget_oldest(self, *, even_if_read: bool = False) -> bool:
        """Remove the oldest file; return False if a reader prevents that.

        even_if_read: whether to remove the file even if it has a reader.
        """
        name = self._files[0]
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self._directory)
        except OSError:  # the file is gone already
            del self._files[0]
            return True
        try:
            if not even_if_read and _is_read(descriptor):
                return False
            # A reader that waits for the lock then sees that the file is deleted.
            try_to(os.unlink, name, dir_fd=self._directory)
        finally:
            os.close(descriptor)
        del self._files[0]
        return True

    def _make_next_stamp(self) -> bytes:
        """Return the current time as RFC 3339 with nanoseconds; never earlier than the last returned time."""
        self._now = max(self._now, time.time_ns())
        seconds, nanoseconds = divmod(self._now, 1_000_000_000)
        return b"%s.%09dZ" % (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode(), nanoseconds)


def _is_read(descriptor: int) -> bool:
    """Return whether the file has a reader; if it has none, lock it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # on a file system without locks, readers cannot be detected
        return False
    return False
