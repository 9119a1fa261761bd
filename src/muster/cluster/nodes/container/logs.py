"""Serve the logs of a node's containers (`pods/log`), once or as they grow.

A follower first checks whether the container has exited, and then reads the log once more, so that it loses no last
lines.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from pathlib import Path

from muster.api.core import ContainerStatus, Pod
from muster.api.status import ApiError, bad_request
from muster.cluster.nodeconnection import LogOptions
from muster.cluster.nodes import shims
from muster.cluster.nodes.container.logfiles import Reader
from muster.cluster.nodes.disk.storage import Storage
from muster.runtime.clock import Clock
from muster.runtime.containerlogs import (
    HEAD_BYTES,
    STAMP_BYTES,
    AttemptRecord,
    KeptPod,
    Missing,
    record,
    split_runs,
)

# The interval at which a follower checks for new lines: while lines arrive, and later while none arrive.
POLL_SOON_SECONDS, POLL_SECONDS = 0.01, 0.05
# Between two checks a follower polls only the size of the file, which takes 1 µs: at first every 10 ms, later after
# a tenth of the silence until then. So a progress bar that is drawn a few times in a second is seen at once.
_LOOK_AFTER = 0.1
# A check takes some 50 µs. So the followers of a namespace share a rate of checks: each of a thousand checks rarely.
_SECONDS_OF_A_CHECK = 0.0005
_MOST_PIECES_OF_A_TAIL = 16  # two files have about six; the user of a container may begin new files for ever


class Logs:
    """The server of one node's container logs, which the API server asks for `pods/log`."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._followers: Counter[str] = Counter()  # the number of followers, by namespace

    def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the log of a pod's container, in pieces. Raises `ApiError` before the first piece if there is none."""
        return self._read(lambda: self._find_directory(pod, options), options, pod.metadata.namespace)

    def read_kept(self, pod: KeptPod, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the log of a deleted pod's container, in pieces.

        The node keeps such logs, within limits, as long as the pod's job exists.
        """
        number = options.attempt if options.attempt is not None else max(pod.containers[options.container])
        return self._read(lambda: self._storage.of(pod.uid).attempt(options.container, number), options, "")

    async def _read(self, find: Callable[[], Path], options: LogOptions, namespace: str) -> AsyncIterator[bytes]:
        """Yield the log of an attempt in pieces, and new output while the container runs if the options request that.

        find: returns the directory of the attempt.
        """
        directory = find()
        since = self._format_since(options)
        form = Raw(since) if options.raw else Rendering(since, timestamps=options.timestamps)
        left = options.limit_bytes
        reader, pause, heard = Reader(directory), POLL_SOON_SECONDS, self._clock.monotonic()
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
                for block in chain(reader.read(), _write_loss_notice(directory) if over else ()):
                    data = form.feed(block)
                    del block  # a thousand clients may be slow to take their data
                    if left is not None:
                        data = data[:left]
                        left -= len(data)
                    if data:
                        yield data
                    if left == 0:
                        return
                    pause, heard = POLL_SOON_SECONDS, self._clock.monotonic()
                    await self._clock.sleep(0)
                if over:
                    return
                least = self._followers[namespace] * _SECONDS_OF_A_CHECK
                await self._wait_for_growth(reader, max(pause, least), heard, least)
                pause = min(2 * pause, POLL_SECONDS)
        finally:
            reader.close()
            self._followers[namespace] -= options.follow
            if not self._followers[namespace]:
                del self._followers[namespace]

    async def _wait_for_growth(self, reader: Reader, seconds: float, heard: float, least: float) -> None:
        """Wait for this many seconds, or until the open file has grown.

        heard: when the last lines arrived.
        least: the shortest time between two polls, in seconds.
        """
        now = self._clock.monotonic()
        until = now + seconds
        while now < until:
            interval = max(POLL_SOON_SECONDS, least, _LOOK_AFTER * (now - heard))
            await self._clock.sleep(min(interval, until - now))
            if reader.has_grown():
                return
            now = self._clock.monotonic()

    def _find_directory(self, pod: Pod, options: LogOptions) -> Path:
        storage = self._storage.of(pod.metadata.uid)
        numbers = storage.attempts(options.container) if storage.exists() else []
        while numbers and shims.read_record(storage.attempt(options.container, numbers[-1])) is None:
            numbers.pop()  # created, but no shim has claimed it yet
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


class Raw:
    """A log format for clients that request the stored log unchanged, with all timestamps."""

    def __init__(self, since: bytes = b"") -> None:
        self._since = since

    def feed(self, block: bytes | Missing) -> bytes:
        """Return whole lines of the log unchanged, except the lines before `since`."""
        if isinstance(block, Missing):
            return record(block)
        if not self._since:
            return block
        return b"".join(
            [line + b"\n" for line in block.removesuffix(b"\n").split(b"\n") if line[:STAMP_BYTES] >= self._since]
        )


class Rendering:
    """A log format for users: each line of the log becomes the text that the program wrote, with a line end."""

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
    """Return the last lines of a log, at most `limit_bytes`, for a container's termination message.

    The read blocks. So it reads at most the size that this much text can have in the log, at one byte a line.
    """
    reader, rendering = Reader(directory, most_files=2, most_bytes=limit_bytes * (HEAD_BYTES + 2)), Rendering()
    try:
        reader.seek(lines)
        data = b""
        for block in islice(reader.read(), _MOST_PIECES_OF_A_TAIL):
            data = (data + rendering.feed(block))[-limit_bytes:]
    finally:
        reader.close()
    return data.decode(errors="replace")


def _write_loss_notice(directory: Path) -> Iterator[bytes]:
    """Yield a notice of lines that a finished attempt printed and its shim could not log, if there are any."""
    record = shims.read_record(directory)
    if record is not None and record.untold:
        seconds, nanoseconds = divmod(record.finished, 1_000_000_000)
        stamp = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z"
        yield f"{stamp} stderr F [muster: {record.untold} lines are missing here: they could not be written]\n".encode()


def _waits_to_run_again(pod: Pod, container: str) -> bool:
    """Return whether a container waits for its restart.

    The container's newest run then counts as the previous one (upstream's lastState).
    """
    status = _find_status(pod, container)
    return status is not None and status.state.waiting is not None and status.last_state.terminated is not None


def _find_status(pod: Pod, container: str) -> ContainerStatus | None:
    statuses: tuple[ContainerStatus, ...] = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next((status for status in statuses if status.name == container), None)


def _explain_missing_log(pod: Pod, container: str) -> ApiError:
    """Return the error that tells a client why a container has no log."""
    status = _find_status(pod, container)
    if status is not None and status.state.terminated is not None:
        return bad_request(f'container "{container}" in pod "{pod.metadata.name}" has ended, and has no log here')
    reason = status.state.waiting.reason if status and status.state.waiting else "ContainerCreating"
    return bad_request(f'container "{container}" in pod "{pod.metadata.name}" is waiting to start: {reason}')
