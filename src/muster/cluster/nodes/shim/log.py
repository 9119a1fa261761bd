"""The container's log, in the format of the container runtimes: `<time> <stream> <tag> <text>` a line, rotated.

Losing lines (a full disk) never stops the container: they are counted, and the log says so once there is room again.
"""

from __future__ import annotations

import errno
import os
import select
import time

from .system import strerror

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "log"
# Longer lines are cut into partial ones, tagged P; F ends a line.
LINE_BYTES = 16384
READ_BYTES = 65536
# No log has more files than this.
MOST_FILES = 10


class Stream:
    """One output of the container, cut into lines."""

    def __init__(self, name: bytes, show: Callable[[bytes], None] | None = None) -> None:
        self.name = name
        self.show = show  # to whoever is attached
        self._rest = b""  # an unfinished line, shorter than LINE_BYTES

    def lines(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """What to log of this and of what was held back, as (tag, text)."""
        *whole, rest = (self._rest + data).split(b"\n")
        cut: list[tuple[bytes, bytes]] = []
        for line in whole:
            while len(line) > LINE_BYTES:
                cut.append((b"P", line[:LINE_BYTES]))
                line = line[LINE_BYTES:]
            cut.append((b"F", line))
        while len(rest) >= LINE_BYTES:
            cut.append((b"P", rest[:LINE_BYTES]))
            rest = rest[LINE_BYTES:]
        self._rest = rest
        return cut

    def end(self) -> list[tuple[bytes, bytes]]:
        """What is left at the end of the stream."""
        rest, self._rest = self._rest, b""
        return [(b"P", rest)] if rest else []


class Log:
    """The files `log`, `log.1`, ... (older and older) in a directory, given as a descriptor."""

    def __init__(self, directory: int, limit_bytes: int, files: int) -> None:
        self.lost = 0  # lines
        self.trouble = ""  # why they were lost
        self._directory = directory
        self._limit = limit_bytes
        self._files = min(files, MOST_FILES)
        self._descriptor = -1
        self._size = 0
        self._torn = False  # the last line in the file has no end
        self._landed = 0  # how many lines of the last append are in the file
        self._noted = 0  # how many of the lost lines the log itself tells of

    def copy(self, descriptor: int, stream: Stream) -> bool:
        """Log what can be read now; False at the end of the stream."""
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno != errno.EIO:  # a terminal that nobody has open any more
                raise
            data = b""
        if data and stream.show is not None:
            stream.show(data)
        self.write(stream.name, stream.lines(data) if data else stream.end())
        return bool(data)

    def drain(self, descriptor: int, stream: Stream) -> None:
        """Log all that is left of a stream whose writers are dead: what would block now will never come."""
        while select.select([descriptor], [], [], 0)[0] and self.copy(descriptor, stream):
            pass
        self.write(stream.name, stream.end())

    def write(self, stream: bytes, lines: list[tuple[bytes, bytes]]) -> None:
        """Append lines, or count them as lost."""
        if not lines:
            return
        head = _stamp() + b" " + stream + b" "
        try:
            self.tell_losses()
            self._append(b"".join([head + tag + b" " + text + b"\n" for tag, text in lines]))
        except OSError as error:
            self.trouble = strerror(error)
            self.lost += len(lines) - max(self._landed, 0)

    def tell_losses(self) -> None:
        """Say in the log that lines are missing at this place. Raises OSError."""
        if self.lost > self._noted:
            text = f" stderr F [muster: {self.lost - self._noted} lines are missing here: {self.trouble}]\n"
            self._append(_stamp() + text.encode())
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
        """Move every file one number up, forget the last, open a new one."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            for number in range(self._files - 1, 0, -1):
                older = f"{NAME}.{number - 1}" if number > 1 else NAME
                try:
                    os.rename(older, f"{NAME}.{number}", src_dir_fd=self._directory, dst_dir_fd=self._directory)
                except FileNotFoundError:
                    continue
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(NAME, flags, 0o600, dir_fd=self._directory)
        self._size = os.fstat(self._descriptor).st_size
        self._torn = False


def _stamp() -> bytes:
    """Now, as RFC 3339 with nanoseconds."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return b"%s.%09dZ" % (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode(), nanoseconds)
