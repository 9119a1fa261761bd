"""The container's log, in the format of the container runtimes: `<time> <stream> <tag> <text>` a line, rotated.

The files are `log.<number>.<bytes>`: numbers count up from 0, bytes is how much text had been logged before. So names
alone tell the order, whether one is missing, and how much has gone. Only the newest file is written to.

A reader holds a shared lock on its file (flock). The oldest is not forgotten while it has a reader: the container's
output is left in its pipe meanwhile, until the reader has moved on or the patience is at its end.

Losing lines (a full disk) never stops the container: they are counted, and the log says so once there is room again. If
that never comes the exit record has what the log could not tell.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import time

from .system import strerror, try_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "log"
# Longer lines are cut into partial ones, tagged P; F ends a line.
LINE_BYTES = 16384
READ_BYTES = 1 << 18
# How soon it is seen that a reader has moved on: first, and at last.
_LOOK_SECONDS, _LOOK_SELDOM_SECONDS = 0.002, 0.1


class Stream:
    """One output of the container, cut into lines."""

    def __init__(self, name: bytes, show: Callable[[bytes], None] | None = None) -> None:
        self.name = name
        self.show = show  # to the clients that are attached
        self._rest = b""  # an unfinished line, shorter than LINE_BYTES

    def cut(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """What to log of this and of what was held back, as (tag, text): parts of lines (P), or whole lines (F)."""
        data = self._rest + data
        cut: list[tuple[bytes, bytes]] = []
        whole = at = 0  # from where on there are only whole lines so far; up to where
        end = data.rfind(b"\n") + 1
        while at < end:
            last = data.rfind(b"\n", at, at + LINE_BYTES + 1)
            if last < 0:
                if at > whole:
                    cut.append((b"F", data[whole:at]))
                cut.append((b"P", data[at : at + LINE_BYTES]))
                whole = at = at + LINE_BYTES
            else:
                at = last + 1
        if at > whole:
            cut.append((b"F", data[whole:at]))
        while len(data) - at >= LINE_BYTES:
            cut.append((b"P", data[at : at + LINE_BYTES]))
            at += LINE_BYTES
        self._rest = data[at:]
        return cut

    def end(self) -> list[tuple[bytes, bytes]]:
        """What is left at the end of the stream."""
        rest, self._rest = self._rest, b""
        return [(b"P", rest)] if rest else []


class Log:
    """The files in a directory, given as a descriptor.

    limit_bytes: when the next file is begun. files: how many are kept.
    patience_seconds: how long a reader of the oldest file is waited for before it is forgotten all the same; less than
        0 for as long as it takes.
    """

    def __init__(self, directory: int, limit_bytes: int, files: int, patience_seconds: float) -> None:
        self.lost = 0  # lines
        self.trouble = ""  # why they were lost
        self._directory = directory
        self._limit = limit_bytes
        self._most = files
        self._patience = patience_seconds
        self._files: list[str] = []  # their names, oldest first
        self._begun = 0  # how many there have been
        self._text = 0  # how many bytes of text have been logged
        self._descriptor = -1
        self._size = 0
        self._torn = False  # the last line in the file has no end
        self._landed = 0  # how many lines of the last append are in the file
        self._noted = 0  # how many of the lost lines the log itself tells of
        self._now = 0  # as the newest line says
        self._waiting_since = 0.0  # for the reader of the oldest file; 0 if none is waited for

    def copy(self, descriptor: int, stream: Stream) -> bool:
        """Log what can be read now; False at the end of the stream."""
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
        self.write(stream.name, stream.cut(data) if data else stream.end())
        return bool(data)

    def drain(self, descriptor: int, stream: Stream) -> None:
        """Log all that is left of a stream whose writers are dead: what would block now will never come.

        It is no more than a pipe holds, and goes into the file that is open: no reader has to be waited for.
        """
        self._limit = 1 << 62
        while select.select([descriptor], [], [], 0)[0] and self.copy(descriptor, stream):
            pass
        self.write(stream.name, stream.end())

    def pause(self) -> float:
        """For how many seconds to leave the output where it is, and to ask again then; 0 if it can be copied now.

        More of it would overtake a reader.
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
        """Append lines, or count them as lost."""
        if not pieces:
            return
        head = self._stamp() + b" " + stream + b" "
        parts, text_bytes = [], 0
        for tag, text in pieces:
            mark = head + tag + b" "
            parts.append(mark + text[:-1].replace(b"\n", b"\n" + mark) + b"\n" if tag == b"F" else mark + text + b"\n")
            text_bytes += len(text)
        data = b"".join(parts)
        try:
            self.tell_losses()
            self._append(data)
            self._text += text_bytes
        except OSError as error:
            self.trouble = strerror(error)
            self.lost += data.count(b"\n") - max(self._landed, 0)

    @property
    def untold(self) -> int:
        """How many of the lost lines the log itself does not tell of."""
        return self.lost - self._noted

    def tell_losses(self) -> None:
        """Say in the log that lines are missing at this place. Raises OSError."""
        if self.untold:
            text = f"[muster: {self.untold} lines are missing here: {self.trouble}]\n".encode()
            self._append(self._stamp() + b" stderr F " + text)
            self._text += len(text)
            self._noted = self.lost

    def _append(self, data: bytes) -> None:
        self._landed = 0
        if self._descriptor < 0 or self._size >= self._limit:
            self._rotate()
        if self._torn:
            data = b"\n" + data
        self._landed = -1 if self._torn else 0
        while data:
            written = os.write(self._descriptor, data)
            self._size += written
            self._torn = data[written - 1] != 0x0A
            self._landed += data[:written].count(b"\n")
            data = data[written:]

    def _rotate(self) -> None:
        """Begin a new file. There is one too many only if the supervisor has not asked for a `pause`."""
        name = f"{NAME}.{self._begun}.{self._text}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(name, flags, 0o600, dir_fd=self._directory)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._size, self._torn = descriptor, 0, False
        self._files.append(name)
        self._begun += 1
        while len(self._files) > self._most and self._forget_oldest():
            pass

    def _forget_oldest(self, *, even_if_read: bool = False) -> bool:
        """Remove the oldest file; False if it has a reader."""
        name = self._files[0]
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self._directory)
        except OSError:  # it is gone already
            del self._files[0]
            return True
        try:
            if not even_if_read and _is_read(descriptor):
                return False
            # With the lock held: a reader that waits for it sees then that the file is gone.
            try_to(os.unlink, name, dir_fd=self._directory)
        finally:
            os.close(descriptor)
        del self._files[0]
        return True

    def _stamp(self) -> bytes:
        """Now, as RFC 3339 with nanoseconds; never before the last one, whatever becomes of the machine's clock."""
        self._now = max(self._now, time.time_ns())
        seconds, nanoseconds = divmod(self._now, 1_000_000_000)
        return b"%s.%09dZ" % (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode(), nanoseconds)


def _is_read(descriptor: int) -> bool:
    """Whether the file has a reader; if not, it is locked for us."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks has no readers that could be seen
        return False
    return False
