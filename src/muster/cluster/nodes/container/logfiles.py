"""Read the files of one container's log across rotations, forward and from the end.

The shim of the container writes and rotates the files. A reader holds a shared lock on its file, so that the shim
delays the deletion of that file. After a limit the shim deletes the file anyway. The names of the later files then show
how many bytes are missing.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Generator, Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct

from muster.cluster.nodes.disk import plainfiles
from muster.cluster.nodes.shim.log import LINE_BYTES, NAME
from muster.runtime.containerlogs import HEAD_BYTES, STDERR, STDOUT, Missing, ends_line, split_runs, stream_of

_BLOCK = 1 << 18
# The user of a container may put anything into the directory of its log. These bounds, which no log that a shim writes
# exceeds, keep other users from waiting: entries of the directory, files of the log, bytes of a file, and its lines.
_MOST_ENTRIES = 1000
_MOST_FILES = 10
_MOST_BYTES_OF_A_FILE = 32 << 20
_STREAMS = {STDOUT, STDERR}
_MOST_LINES_OF_A_FILE = _MOST_BYTES_OF_A_FILE // HEAD_BYTES
_LINES_OF_A_STEP = 1000  # walked back between two turns of other users: a millisecond or two
_FILE = re.compile(rf"{NAME}\.(\d+)\.(\d+)")


class _File(Struct, frozen=True):
    """One file of a log, as its name describes it: its number, and the bytes of text before it."""

    number: int
    text_bytes: int  # bytes logged before this file
    path: Path


class Reader:
    """A reader of one log's files, which reads whole lines in order.

    most_files: how many of the newest files to read.
    most_bytes: how much of each file to read; after a seek, this much before its end.
    """

    def __init__(self, directory: Path, most_files: int = _MOST_FILES, most_bytes: int = _MOST_BYTES_OF_A_FILE) -> None:
        self.dropped = 0  # bytes of text that were deleted from the start of the log before they were read
        self._directory = directory
        self._most_files = most_files
        self._most_bytes = most_bytes
        self._file: _File | None = None
        self._descriptor = -1
        self._read_bytes = 0  # how much of the open file was read
        self._rest = b""
        self._refused: set[Path] = set()  # files of other users

    def seek(self, lines: int | None) -> None:
        """Move to the position with this many lines before the current end of the log; None means the start."""
        for _ in self.seek_in_steps(lines):
            pass

    def seek_in_steps(self, lines: int | None) -> Iterator[None]:
        """Seek as `seek` does, and yield after each step, so that the caller can let other tasks run."""
        newest_first = list(reversed(self._list_files()))
        for file in newest_first if lines is not None else newest_first[-1:]:
            if not self._open_file(file):
                break
            if lines is not None:
                is_newest = file is newest_first[0]
                position, count = yield from _find_tail(self._descriptor, lines, self._most_bytes, is_newest=is_newest)
                os.lseek(self._descriptor, position, os.SEEK_SET)
                lines -= count
                if lines <= 0 or position > 0:
                    return
        if self._file is not None:
            self.dropped = self._file.text_bytes

    def has_grown(self) -> bool:
        """Return whether the open file has unread bytes."""
        if self._file is None:
            return False
        return os.fstat(self._descriptor).st_size > os.lseek(self._descriptor, 0, os.SEEK_CUR)

    def read(self) -> Iterator[bytes | Missing]:
        """Yield the whole lines from the current position to the end, in blocks, and a `Missing` for deleted bytes.

        Yield an empty block after a read without a whole line, so that the caller can let other tasks run.
        """
        at_end = False
        while self._file is not None or (yield from self._open_next()):
            yield from iter(self._read_lines, None)
            if not self._list_newer_files() or (at_end and not (yield from self._open_next())):
                return
            at_end = not at_end  # read again: the last lines may precede the next file's creation only just
            yield b""

    def _read_lines(self) -> bytes | None:
        """Return the whole lines of the next part of the open file; None at its end."""
        data = os.read(self._descriptor, min(_BLOCK, self._most_bytes - self._read_bytes))
        if not data:
            return None
        self._read_bytes += len(data)
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest if len(rest) <= _BLOCK else b""  # no line of a log is that long
        return whole + newline

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._descriptor)
            self._file = None

    def _list_files(self) -> list[_File]:
        return _list_files(self._directory)[-self._most_files :]

    def _list_newer_files(self) -> list[_File]:
        """Return the files that are newer than the open one."""
        number = self._file.number if self._file is not None else -1
        return [file for file in self._list_files() if file.number > number and file.path not in self._refused]

    def _open_next(self) -> Generator[bytes | Missing, None, bool]:
        """Open the next log file; return False if there is none.

        Yield the unfinished last line of the old file, and a `Missing` for the bytes of files that were deleted in
        between.
        """
        number, text_bytes = -1, 0
        if self._file is not None:
            number, text_bytes = self._file.number, self._file.text_bytes
        newer = self._list_newer_files()
        if newer and newer[0].number > number + 1 and self._file is not None:
            text_bytes += yield from _count_text_bytes(self._descriptor, self._most_bytes)
        rest, self._rest = self._rest, b""
        while newer and not self._open_file(newer[0]):
            newer = self._list_newer_files()
        if newer:
            if rest:  # a full disk left the line without an end
                yield rest + b"\n"
            if newer[0].number > number + 1:
                yield Missing(max(newer[0].text_bytes - text_bytes, 0))
        return bool(newer)

    def _open_file(self, file: _File) -> bool:
        """Open a file at its start, replacing the open one; return False if the file no longer exists.

        The previous file stays locked until the new file is locked.
        """
        try:
            descriptor = plainfiles.open_file(file.path)
        except FileNotFoundError:
            return False
        except plainfiles.OddFileError:
            self._refused.add(file.path)
            return False
        # If the file cannot be locked, or the shim is about to delete it, it is read without the lock.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self.close()
        self._file, self._descriptor, self._read_bytes = file, descriptor, 0
        return True


def _list_files(directory: Path) -> list[_File]:
    """Return the newest files of a log, oldest first; an empty list if the pod's directory no longer exists."""
    try:
        with os.scandir(directory) as entries:  # a follower calls this often, and a glob takes longer
            first = islice(entries, _MOST_ENTRIES)
            names = [entry.name for entry in first if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    matches = filter(None, map(_FILE.fullmatch, names))
    files = [_File(int(match[1]), int(match[2]), directory / match[0]) for match in matches]
    return sorted(files, key=lambda file: file.number)[-_MOST_FILES:]


def _count_text_bytes(descriptor: int, most_bytes: int) -> Generator[bytes, None, int]:
    """Return how many bytes of text a file holds. Yield an empty block after each block of the file."""
    total, position, rest = 0, 0, b""
    while data := os.pread(descriptor, min(_BLOCK, most_bytes - position), position):
        position += len(data)
        whole, newline, rest = (rest[-_BLOCK:] + data).rpartition(b"\n")
        total += sum(len(run.text) for run in split_runs(whole + newline))
        yield b""
    return total


def _find_tail(
    descriptor: int, lines: int, most_bytes: int, *, is_newest: bool
) -> Generator[None, None, tuple[int, int]]:
    """Return the position in a file after which at most `lines` lines of text follow, and the number of these lines.

    Yield after each step. A line in parts counts once for each 16 KiB. Otherwise the tail of a log with a progress bar
    would be its whole history.

    is_newest: whether this is the last file of the log, so that the last line of each stream may be incomplete.
    """
    position = count = size = 0
    seen = set[bytes]()  # the streams of the lines behind `position`
    for number, (start, line) in enumerate(islice(_walk_back(descriptor, most_bytes), _MOST_LINES_OF_A_FILE)):
        if number % _LINES_OF_A_STEP == 0:
            yield
        size += len(line) - HEAD_BYTES
        stream = stream_of(line)
        if ends_line(line) or size > LINE_BYTES or (is_newest and (number == 0 or stream in _STREAMS - seen)):
            if count == lines:
                return start + len(line) + 1, count
            count, size = count + 1, len(line) - HEAD_BYTES
        if stream in _STREAMS:
            seen.add(stream)
        position = start
    return position, count


def _walk_back(descriptor: int, most_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that begin and end in the last bytes of a file, without their newlines, last line first.

    Each comes after the position of its first byte.
    """
    end = min(os.lseek(descriptor, 0, os.SEEK_END), _MOST_BYTES_OF_A_FILE)
    least = max(end - most_bytes, 0)
    rest = b""  # the end of a line that begins in an earlier block
    while end > least:
        if len(rest) > _BLOCK:  # no line of a log is so long
            return
        start = max(end - _BLOCK, least)
        data = os.pread(descriptor, end - start, start) + rest
        *lines, torn = data.split(b"\n")
        if start > 0:
            rest = lines.pop(0) + b"\n" if lines else data
        position = start + len(data) - len(torn)
        for line in reversed(lines):
            position -= len(line) + 1
            yield position, line
        end = start
