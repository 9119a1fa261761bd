"""Read the logs of containers across rotations, and follow them while they grow.

A reader holds a shared lock on its file, so that the shim waits before it deletes that file. If the shim waited long
enough, it deletes the file; the names of the later files then show how many bytes are missing. Whether the attempt has
ended is determined before the last read, never after it, so that the last lines are not lost.
"""

import contextlib
import fcntl
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from pathlib import Path

from muster.api.core import ContainerStatus, Pod
from muster.api.status import ApiError, bad_request
from muster.cluster.nodeconnection import LogOptions
from muster.cluster.nodes import shims
from muster.cluster.nodes.disk import plainfiles
from muster.cluster.nodes.disk.storage import Storage
from muster.cluster.nodes.shim.log import LINE_BYTES, NAME
from muster.runtime.clock import Clock
from muster.runtime.containerlogs import (
    HEAD_BYTES,
    STAMP_BYTES,
    AttemptRecord,
    KeptPod,
    Missing,
    ends_line,
    record,
    split_runs,
)

_BLOCK = 1 << 18
# The user of a container may put anything into the directory of its log. These bounds, which no log that a shim writes
# exceeds, keep other users from waiting: entries of the directory, files of the log, bytes of a file, and its lines.
_MOST_ENTRIES = 1000
_MOST_FILES = 10
_MOST_BYTES_OF_A_FILE = 32 << 20
_MOST_LINES_OF_A_FILE = _MOST_BYTES_OF_A_FILE // HEAD_BYTES
_LINES_OF_A_STEP = 1000  # walked back between two turns of other users: a millisecond or two
_FILE = re.compile(rf"{NAME}\.(\d+)\.(\d+)")
# The interval at which a follower checks for new lines: while lines arrive, and after a while without any.
POLL_SOON_SECONDS, POLL_SECONDS = 0.01, 0.05
# A check takes some 50 µs. So the followers of a namespace share a rate of checks: each of a thousand checks rarely.
_SECONDS_OF_A_CHECK = 0.0005


class Logs:
    """The logs of one node's pods, as the API server requests them for `pods/log`."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._followers: Counter[str] = Counter()  # by namespace

    def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the log of a pod, in pieces. Raises `ApiError` before the first piece if there is none."""
        return self._read(lambda: self._find_directory(pod, options), options, pod.metadata.namespace)

    def read_kept(self, pod: KeptPod, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the kept log of a deleted pod."""
        number = options.attempt if options.attempt is not None else max(pod.containers[options.container])
        return self._read(lambda: self._storage.of(pod.uid).attempt(options.container, number), options, "")

    async def _read(self, find: Callable[[], Path], options: LogOptions, namespace: str) -> AsyncIterator[bytes]:
        directory = find()
        since = self._format_since(options)
        form = Raw(since) if options.raw else Rendering(since, timestamps=options.timestamps)
        left = options.limit_bytes
        reader, pause = Reader(directory), POLL_SOON_SECONDS
        self._followers[namespace] += options.follow
        try:
            for _ in reader.seek_in_steps(options.tail_lines):
                await self._clock.sleep(0)
            if options.raw:
                yield record(AttemptRecord(int(directory.name)))
            if options.raw and reader.dropped:
                yield record(Missing(reader.dropped))
            while True:
                over = not options.follow or not shims.is_alive(directory)
                for block in chain(reader.read(), _loss_notice(directory) if over else ()):
                    data = form.feed(block)
                    del block  # a thousand clients may be slow to take their data
                    if left is not None:
                        data = data[:left]
                        left -= len(data)
                    if data:
                        yield data
                    if left == 0:
                        return
                    pause = POLL_SOON_SECONDS
                    await self._clock.sleep(0)
                if over:
                    return
                await self._clock.sleep(max(pause, self._followers[namespace] * _SECONDS_OF_A_CHECK))
                pause = min(2 * pause, POLL_SECONDS)
        finally:
            reader.close()
            self._followers[namespace] -= options.follow
            if not self._followers[namespace]:
                del self._followers[namespace]

    def _find_directory(self, pod: Pod, options: LogOptions) -> Path:
        storage = self._storage.of(pod.metadata.uid)
        numbers = storage.attempts(options.container) if storage.exists() else []
        while numbers and shims.read_record(storage.attempt(options.container, numbers[-1])) is None:
            numbers.pop()  # begun, but no shim has claimed it yet
        if options.attempt is not None:
            numbers = [number for number in numbers if number == options.attempt]
        if options.previous:
            if numbers and (options.before_newest or not _waits_to_run_again(pod, options.container)):
                numbers.pop()
            if not numbers:
                raise bad_request(
                    f'previous terminated container "{options.container}" in pod "{pod.metadata.name}" not found'
                )
        if not numbers:
            raise _explain_missing_log(pod, options.container)
        return storage.attempt(options.container, numbers[-1])

    def _format_since(self, options: LogOptions) -> bytes:
        since = options.since_time
        if options.since_seconds is not None:
            since = self._clock.now() - timedelta(seconds=options.since_seconds)
        return since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").encode() if since else b""


@dataclass(frozen=True, slots=True)
class _File:
    """One file of a log, as its name describes it."""

    number: int
    text_bytes: int  # bytes logged before this file
    path: Path


class Reader:
    """A reader of the files of one log, in order and whole lines at a time."""

    def __init__(self, directory: Path) -> None:
        self.dropped = 0  # bytes of text that were deleted from the start of the log before they were read
        self._directory = directory
        self._file: _File | None = None
        self._descriptor = -1
        self._read_bytes = 0  # of the open file
        self._rest = b""
        self._refused: set[Path] = set()  # files of other users

    def seek(self, lines: int | None) -> None:
        """Go to the position with this many lines left, or to the start."""
        for _ in self.seek_in_steps(lines):
            pass

    def seek_in_steps(self, lines: int | None) -> Iterator[None]:
        """Seek, and pause after each step, so that the caller can let other clients take turns."""
        newest_first = list(reversed(_list_files(self._directory)))
        for file in newest_first if lines is not None else newest_first[-1:]:
            if not self._open_file(file):
                break
            if lines is not None:
                lines -= yield from _seek_back(self._descriptor, lines, is_newest=file is newest_first[0])
                if lines <= 0:
                    return
        if self._file is not None:
            self.dropped = self._file.text_bytes

    def read(self) -> Iterator[bytes | Missing]:
        """Yield all whole lines from here to the present end, in blocks, with notices of missing bytes in between.

        Yield an empty block after a read without a whole line, so that the caller can let other clients take turns.
        """
        at_end = False
        while self._file is not None or (yield from self._open_next()):
            yield from iter(self._read_lines, None)
            if not self._newer_files() or (at_end and not (yield from self._open_next())):
                return
            at_end = not at_end  # read again: the last lines may precede the next file's creation only just
            yield b""

    def _read_lines(self) -> bytes | None:
        """Return the whole lines of the next part of the open file; None at its end."""
        data = os.read(self._descriptor, _BLOCK) if self._read_bytes < _MOST_BYTES_OF_A_FILE else b""
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

    def _newer_files(self) -> list[_File]:
        """Return the files that come after the open one."""
        number = self._file.number if self._file is not None else -1
        files = _list_files(self._directory)
        return [file for file in files if file.number > number and file.path not in self._refused]

    def _open_next(self) -> Generator[bytes | Missing, None, bool]:
        """Open the next log file, and return whether there is one.

        Yield the unfinished last line of the old file, and a notice of the bytes of files that were deleted in between,
        if any.
        """
        number, text_bytes = -1, 0
        if self._file is not None:
            number, text_bytes = self._file.number, self._file.text_bytes
        newer = self._newer_files()
        if newer and newer[0].number > number + 1 and self._file is not None:
            text_bytes += _count_text_bytes(self._descriptor)
        rest, self._rest = self._rest, b""
        while newer and not self._open_file(newer[0]):
            newer = self._newer_files()
        if newer:
            if rest:  # a full disk left the line without an end
                yield rest + b"\n"
            if newer[0].number > number + 1:
                yield Missing(max(newer[0].text_bytes - text_bytes, 0))
        return bool(newer)

    def _open_file(self, file: _File) -> bool:
        """Open a file at its start, replacing the open one; return False if it is deleted.

        The previous file stays locked until the new one is.
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


class Raw:
    """A log format for clients that ask for the log unchanged."""

    def __init__(self, since: bytes = b"") -> None:
        self._since = since

    def feed(self, block: bytes | Missing) -> bytes:
        """Return whole lines of the log unchanged, from `since` on."""
        if isinstance(block, Missing):
            return record(block)
        if not self._since:
            return block
        return b"".join(
            [line + b"\n" for line in block.removesuffix(b"\n").split(b"\n") if line[:STAMP_BYTES] >= self._since]
        )


class Rendering:
    """A log format for users: it converts each line of the log to the text that the program wrote, with a line end."""

    def __init__(self, since: bytes = b"", *, timestamps: bool = False) -> None:
        self._since = since
        self._timestamps = timestamps
        self._is_in_line = False  # the last part did not end a line

    def feed(self, block: bytes | Missing) -> bytes:
        """Return the text of whole lines of the log. A line in several parts has the timestamp of its first part."""
        if isinstance(block, Missing):
            line_end, self._is_in_line = b"\n" if self._is_in_line else b"", False
            return line_end + b"[muster: %d bytes are missing here]\n" % block.bytes
        parts = []
        for run in split_runs(block):
            if self._since and run.stamp < self._since:
                continue
            text = run.text
            if self._timestamps:
                if not self._is_in_line:
                    parts += [run.stamp, b" "]
                text = text[:-1].replace(b"\n", b"\n" + run.stamp + b" ") + text[-1:]
            self._is_in_line = run.goes_on
            parts.append(text)
        return b"".join(parts)


def read_tail(directory: Path, lines: int, limit_bytes: int) -> str:
    """Return the end of a log, for a message."""
    reader, rendering = Reader(directory), Rendering()
    try:
        reader.seek(lines)
        data = b""
        for block in reader.read():
            data = (data + rendering.feed(block))[-limit_bytes:]
    finally:
        reader.close()
    return data.decode(errors="replace")


def _list_files(directory: Path) -> list[_File]:
    """Return the newest files of a log, oldest first; none if its pod is deleted."""
    try:
        with os.scandir(directory) as entries:  # a follower calls this often, and a glob takes longer
            first = islice(entries, _MOST_ENTRIES)
            names = [entry.name for entry in first if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    matches = filter(None, map(_FILE.fullmatch, names))
    files = [_File(int(match[1]), int(match[2]), directory / match[0]) for match in matches]
    return sorted(files, key=lambda file: file.number)[-_MOST_FILES:]


def _count_text_bytes(descriptor: int) -> int:
    """Return how many bytes of text a file holds."""
    total, position, rest = 0, 0, b""
    while position < _MOST_BYTES_OF_A_FILE and (data := os.pread(descriptor, _BLOCK, position)):
        position += len(data)
        whole, newline, rest = (rest[-_BLOCK:] + data).rpartition(b"\n")
        total += sum(len(run.text) for run in split_runs(whole + newline))
    return total


def _seek_back(descriptor: int, lines: int, *, is_newest: bool) -> Generator[None, None, int]:
    """Go back from the end of a file by at most this many lines of text; pause after each step; return by how many.

    A line in parts counts once for each 16 KiB, so that the tail of a progress bar is not its whole history.
    is_newest: whether the log ends with this file, so that its last line may have no end.
    """
    position = count = size = 0
    for number, (start, line) in enumerate(islice(_walk_back(descriptor), _MOST_LINES_OF_A_FILE)):
        if number % _LINES_OF_A_STEP == 0:
            yield
        size += len(line) - HEAD_BYTES
        if ends_line(line) or size > LINE_BYTES or (is_newest and count == 0):
            if count == lines:
                position = start + len(line) + 1
                break
            count, size = count + 1, len(line) - HEAD_BYTES
    os.lseek(descriptor, position, os.SEEK_SET)
    return count


def _walk_back(descriptor: int) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines of a file, the last one first, each with its position."""
    end = min(os.lseek(descriptor, 0, os.SEEK_END), _MOST_BYTES_OF_A_FILE)
    rest = b""  # the end of a line that begins in an earlier block
    while end > 0:
        if len(rest) > _BLOCK:  # no line of a log is so long
            return
        start = max(end - _BLOCK, 0)
        data = os.pread(descriptor, end - start, start) + rest
        *lines, torn = data.split(b"\n")
        if start > 0:
            rest = lines.pop(0) + b"\n" if lines else data
        position = start + len(data) - len(torn)
        for line in reversed(lines):
            position -= len(line) + 1
            yield position, line
        end = start


def _loss_notice(directory: Path) -> Iterator[bytes]:
    """Yield a notice of lost lines, if a finished attempt's record counts lost lines that its log does not mention."""
    record = shims.read_record(directory)
    if record is not None and record.untold:
        seconds, nanoseconds = divmod(record.finished, 1_000_000_000)
        stamp = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z"
        yield f"{stamp} stderr F [muster: {record.untold} lines are missing here: they could not be written]\n".encode()


def _waits_to_run_again(pod: Pod, container: str) -> bool:
    """Return whether a container waits between two runs.

    Its newest run then counts as the previous one (upstream's lastState).
    """
    status = _find_status(pod, container)
    return status is not None and status.state.waiting is not None and status.last_state.terminated is not None


def _find_status(pod: Pod, container: str) -> ContainerStatus | None:
    statuses: tuple[ContainerStatus, ...] = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next((status for status in statuses if status.name == container), None)


def _explain_missing_log(pod: Pod, container: str) -> ApiError:
    """Return the error that says why a container has no log."""
    status = _find_status(pod, container)
    if status is not None and status.state.terminated is not None:
        return bad_request(f'container "{container}" in pod "{pod.metadata.name}" has ended, and has no log here')
    reason = status.state.waiting.reason if status and status.state.waiting else "ContainerCreating"
    return bad_request(f'container "{container}" in pod "{pod.metadata.name}" is waiting to start: {reason}')
