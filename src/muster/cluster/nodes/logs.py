"""Reads the logs of containers, over rotations, and follows them while they grow.

A shim renames a full `log` to `log.1` and so on, and starts a new one. A reader keeps the file that it reads open and,
at its end, looks by inode where that file has gone and which one comes next; so nothing is read twice, and nothing is
left out unless the reader is so slow that whole files have been rotated away. Whether the attempt is over is asked
before the last read, never after it: so the last lines are never lost.
"""

import os
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, timedelta
from pathlib import Path

from muster.api.core import ContainerStatus, Pod
from muster.api.status import ApiError, bad_request
from muster.cluster.apiserver.podlogs import LogOptions
from muster.cluster.nodes import shims
from muster.cluster.nodes.shim.log import MOST_FILES, NAME
from muster.cluster.nodes.storage import Storage
from muster.runtime.clock import Clock

_BLOCK = 1 << 16
# How soon a follower sees new lines.
POLL_SECONDS = 0.1


class Logs:
    """The logs of one node's pods; what the API server asks for `pods/log`."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        """The log, in pieces. Raises `ApiError` before the first piece if there is none."""
        directory = self._directory(pod, options)
        rendering = Rendering(self._since(options), timestamps=options.timestamps)
        left = options.limit_bytes
        reader = Reader(directory)
        try:
            reader.seek(options.tail_lines)
            while True:
                over = not options.follow or not shims.is_alive(directory)
                for block in reader.read():
                    data = rendering.feed(block)
                    if left is not None:
                        data = data[:left]
                        left -= len(data)
                    if data:
                        yield data
                    if left == 0:
                        return
                    await self._clock.sleep(0)
                if over:
                    return
                await self._clock.sleep(POLL_SECONDS)
        finally:
            reader.close()

    def _directory(self, pod: Pod, options: LogOptions) -> Path:
        storage = self._storage.of(pod.metadata.uid)
        numbers = storage.attempts(options.container) if storage.exists() else []
        while numbers and shims.read_record(storage.attempt(options.container, numbers[-1])) is None:
            numbers.pop()  # begun, but no shim came so far
        if options.previous:
            if numbers and (options.before_newest or not _waits_to_run_again(pod, options.container)):
                numbers.pop()
            if not numbers:
                raise bad_request(
                    f'previous terminated container "{options.container}" in pod "{pod.metadata.name}" not found'
                )
        if not numbers:
            raise _not_started(pod, options.container)
        return storage.attempt(options.container, numbers[-1])

    def _since(self, options: LogOptions) -> bytes:
        since = options.since_time
        if options.since_seconds is not None:
            since = self._clock.now() - timedelta(seconds=options.since_seconds)
        return since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").encode() if since else b""


class Reader:
    """Reads the files of one log in order, whole lines at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: int | None = None
        self._rest = b""

    def seek(self, lines: int | None) -> None:
        """Go to where so many lines are left, or to the start."""
        files = _open_all(self._directory)
        while files:
            self.close()
            self._file = files.pop()
            if lines is not None:
                lines -= _seek_back(self._file, lines)
                if lines <= 0:
                    break
        _close_all(files)

    def read(self) -> Iterator[bytes]:
        """All whole lines from here to the present end, in blocks."""
        while True:
            if self._file is None:
                self.seek(None)
            if self._file is None:
                return
            data = os.read(self._file, _BLOCK)
            if data:
                whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
                if newline:
                    yield whole + newline
            elif not self._next():
                return

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _next(self) -> bool:
        """At the end of a file: go to the one that was begun after it, if there is one."""
        assert self._file is not None
        inode = os.fstat(self._file).st_ino
        files = _open_all(self._directory)
        inodes = [os.fstat(descriptor).st_ino for descriptor in files]
        newer = files[inodes.index(inode) + 1 if inode in inodes else 0 :]
        # The file may have got its last lines between our reading its end and its renaming.
        finished = os.lseek(self._file, 0, os.SEEK_CUR) == os.fstat(self._file).st_size
        if newer and finished:
            self.close()
            self._file = newer[0]
        _close_all([descriptor for descriptor in files if descriptor != self._file])
        return bool(newer)


class Rendering:
    """Turns the log's own lines into what users see: the text, and a line end unless the line goes on."""

    def __init__(self, since: bytes = b"", *, timestamps: bool = False) -> None:
        self._since = since
        self._timestamps = timestamps
        self._goes_on = False  # the last part did not end a line

    def feed(self, block: bytes) -> bytes:
        """The text of whole lines of the log. A line in several parts has one stamp, that of its first."""
        parts = []
        for line in block.split(b"\n"):  # of all that looks like a line end, the shim takes only this one for one
            pieces = line.split(b" ", 3)
            if len(pieces) < 4 or (self._since and pieces[0] < self._since):
                continue
            time, _, tag, text = pieces
            if self._timestamps and not self._goes_on:
                parts += [time, b" "]
            self._goes_on = tag != b"F"
            parts.append(text if self._goes_on else text + b"\n")
        return b"".join(parts)


def tail(directory: Path, lines: int, limit_bytes: int) -> str:
    """The end of a log, for a message."""
    reader, rendering = Reader(directory), Rendering()
    try:
        reader.seek(lines)
        data = b"".join(rendering.feed(block) for block in reader.read())
    finally:
        reader.close()
    return data[-limit_bytes:].decode(errors="replace")


def _open_all(directory: Path) -> list[int]:
    """Descriptors of the files of a log, oldest first.

    They are opened newest first: a file that is renamed meanwhile is met again under its new name, never missed.
    """
    found: dict[int, int] = {}  # by inode
    for number in range(MOST_FILES):
        try:
            descriptor = os.open(
                directory / (f"{NAME}.{number}" if number else NAME),
                os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK,
            )
        except FileNotFoundError:
            continue
        if found.setdefault(os.fstat(descriptor).st_ino, descriptor) != descriptor:
            os.close(descriptor)
    return list(reversed(found.values()))


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _seek_back(descriptor: int, lines: int) -> int:
    """Go back from the end by so many lines; returns how many there were."""
    position = os.lseek(descriptor, 0, os.SEEK_END)
    found = 0
    while position > 0:
        start = max(position - _BLOCK, 0)
        block = os.pread(descriptor, position - start, start)
        there = block.count(b"\n")
        if found + there > lines:
            index = len(block)
            for _ in range(lines - found + 1):
                index = block.rindex(b"\n", 0, index)
            os.lseek(descriptor, start + index + 1, os.SEEK_SET)
            return lines
        found += there
        position = start
    os.lseek(descriptor, 0, os.SEEK_SET)
    return found


def _waits_to_run_again(pod: Pod, container: str) -> bool:
    """Whether its newest run is over and counts as the last one already, as between restarts (upstream: lastState)."""
    status = _status(pod, container)
    return status is not None and status.state.waiting is not None and status.last_state.terminated is not None


def _status(pod: Pod, container: str) -> ContainerStatus | None:
    statuses: tuple[ContainerStatus, ...] = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next((status for status in statuses if status.name == container), None)


def _not_started(pod: Pod, container: str) -> ApiError:
    status = _status(pod, container)
    reason = status.state.waiting.reason if status and status.state.waiting else "ContainerCreating"
    return bad_request(f'container "{container}" in pod "{pod.metadata.name}" is waiting to start: {reason}')
