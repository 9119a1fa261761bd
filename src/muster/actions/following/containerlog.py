"""Copy the output of one container: every line once, over all its attempts, even if connections break.

Muster's own server returns the log as the node keeps it (`raw`). The output then equals byte for byte what the program
wrote, stdout and stderr are separate, and the size of rotated text is known. Other servers return text, which is all
shown as stdout.

The API returns the log of a container's newest attempt and of the one before, without the number of the attempt. Time
stamps grow from attempt to attempt, so one position in time serves for all attempts. The reader opens the stream of the
newest attempt first, and keeps it open while it reads the rest of the previous attempt.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from muster.actions.following.excerpt import WHOLE, Excerpt, Lines
from muster.api.core import POD, ContainerStatus, Pod
from muster.api.pods import is_sidecar
from muster.api.status import ApiError
from muster.runtime.client import Client, iterate_lines
from muster.runtime.containerlogs import STDERR, STDOUT, AttemptRecord, LineRun, Missing, read_raw
from muster.runtime.realclock import Clock
from muster.runtime.transport import Request, TransportError

if TYPE_CHECKING:
    import asyncio

# The pause before a broken log stream is reopened.
RETRY_SECONDS = 0.5
# For this time after the end of a job, reading the rest of its output is retried.
LAST_WORDS_SECONDS = 30.0

# The time up to microseconds, the remaining digits, and the zone.
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT[\d:]+(?:\.\d{1,6})?)\d*(\S*)")

Show: TypeAlias = Callable[[bytes, bytes], Awaitable[None]]
"""Gets what was written to a stream (STDOUT, STDERR): whole lines, or part of one."""


class ContainerLog:
    """The output of one container, in the order of its attempts."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        pod: Pod,
        status: ContainerStatus,
        *,
        raw: bool,
        show: Show,
        warn: Callable[[str], None],
        excerpt: Excerpt = WHOLE,
    ) -> None:
        """Prepare to follow the log of a container.

        raw: whether the server is Muster's own.
        warn: called with remarks about missing lines.
        """
        self._client = client
        self._clock = clock
        self._path = POD.path(pod.metadata.namespace, pod.metadata.name, "log")
        self._name = pod.metadata.name
        self._status = status
        self._restarts = _may_restart(pod, status.name)
        self._raw = raw
        self._show = show
        self._lines = Lines(excerpt, show)
        self._since = excerpt.since
        self._tail = excerpt.tail  # None once any output has been read
        self._warn = warn
        self._status_changed: asyncio.Event | None = None  # of a log that is followed
        self._place = _Place()
        self._shown_bytes = _ShownBytes()
        self._was_let_in = False  # whether the server allowed an earlier read
        self._unended: set[bytes] = set()  # streams whose last line has no end yet
        self._failing_since: float | None = None
        self._over_since: float | None = None
        self.is_cut = False  # whether the pod was deleted before its whole log was read

    def observe(self, status: ContainerStatus) -> None:
        """Record the container's current status, and wake `copy` to read on."""
        self._status = status
        self._wake()

    def finish(self) -> None:
        """Announce that no further attempts begin, so that `copy` may end."""
        self._over_since = self._clock.monotonic()
        self._wake()

    def _wake(self) -> None:
        if self._status_changed is not None:
            self._status_changed.set()

    async def copy(self) -> None:
        """Show the output of all attempts as it comes, until `finish` is called and the last one has ended.

        Raises `ApiError` if the server refuses permanently.
        """
        await self._copy()
        await self._lines.finish()

    async def _copy(self) -> None:
        import asyncio  # a log that is read once needs no loop

        self._status_changed = asyncio.Event()
        while True:
            attempt = self._status.restart_count
            if not await self._read() or not self._restarts:
                return
            while self._status.restart_count == attempt:
                if self._over_since is not None:
                    return
                self._status_changed.clear()
                await self._status_changed.wait()

    async def copy_once(self, path: str, query: Mapping[str, str]) -> None:
        """Show the current content of the log at this path. Raises `ApiError`, `TransportError`."""
        self._path = path
        async with self._open(**query) as log:
            await self._print(log)
        await self._lines.finish()

    async def _read(self) -> bool:
        """Show the rest of the previous attempt's log and the newest one to its end; return whether it was complete.

        It is not complete if the pod is deleted, or temporary errors last for too long. Raises `ApiError` for other
        errors.
        """
        while True:
            try:
                async with self._open(follow="true") as newest:
                    self._was_let_in = True
                    if self._restarts and self._tail is None:
                        await self._catch_up()
                    await self._print(newest)
                    self._tail = None
            except TransportError as error:
                trouble: ApiError | TransportError = error
            except ApiError as error:
                if error.code == 404:
                    self.is_cut = True
                    return False
                if error.code == 400 and self._status.state.running is None:
                    return True  # the container ended before it had a log
                if not self._is_temporary(error):
                    raise
                trouble = error
            else:
                return True
            if not self._can_retry(trouble):
                return False
            await self._clock.sleep(RETRY_SECONDS)

    def _is_temporary(self, error: ApiError) -> bool:
        """Return whether an error may go away, so that a retry makes sense.

        A server that has just started refuses all requests until it has read the users' rights.
        """
        return error.code == 429 or error.code >= 500 or (error.code == 403 and self._was_let_in)

    async def _catch_up(self) -> None:
        """Show the lines of the previous attempt that have not been shown yet; none if there was no such attempt.

        Raises `ApiError`, `TransportError`.
        """
        try:
            # Other servers ignore the unknown parameter, and return the last attempt that has ended.
            async with self._open(previous="true", beforeNewest="true") as previous:
                await self._print(previous)
        except ApiError as error:
            if error.code != 400:  # there is no previous attempt
                raise

    def _open(self, **which: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        query = {"container": self._status.name, "timestamps": "true", **which}
        if self._raw:
            query["raw"] = "true"
        if shown := _STAMP.match(self._place.stamp):  # a server with less precision must not round the time up
            query["sinceTime"] = (shown[1] + shown[2]).decode()
        elif self._since is not None:
            query["sinceTime"] = self._since.isoformat()
        if self._tail is not None and not self._place.stamp:
            query["tailLines"] = str(self._tail)
        return self._client.transport.stream(Request("GET", self._path, query))

    async def _print(self, chunks: AsyncIterator[bytes]) -> None:
        """Show the lines of an attempt's log, read from its beginning, that have not been shown yet."""
        self._place = self._place.again()
        await (self._print_raw(chunks) if self._raw else self._print_text(chunks))

    async def _print_raw(self, chunks: AsyncIterator[bytes]) -> None:
        rest = b""
        async for chunk in chunks:
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            for part in read_raw(whole + newline):
                if isinstance(part, LineRun):
                    await self._show_run(part)
                    continue
                if isinstance(part, AttemptRecord) and part.number < self._shown_bytes.attempt:
                    return  # it was read to its end before the attempt that is shown now
                if isinstance(part, AttemptRecord) and part.number > self._shown_bytes.attempt:
                    await self._end_lines()
                if missing := self._shown_bytes.count_missing(part):
                    await self._show(STDERR, b"[muster: %d bytes are missing here]\n" % missing)

    async def _show_run(self, run: LineRun) -> None:
        text = run.text
        if shown := run.lines - self._place.new_of(run.stamp, run.lines):
            text = text.split(b"\n", shown)[shown] if shown < run.lines else b""
        if text:
            self._failing_since = None
            self._shown_bytes.count_shown(len(text))
            (self._unended.add if run.goes_on else self._unended.discard)(run.stream)
            await self._lines.add(run.stream, run.stamp, text)

    async def _end_lines(self) -> None:
        """End the unfinished lines of the previous attempt, so that they do not join the new attempt's first lines."""
        while self._unended:
            await self._lines.add(self._unended.pop(), b"", b"\n")

    async def _print_text(self, chunks: AsyncIterator[bytes]) -> None:
        is_new = True
        async for line in iterate_lines(chunks):
            stamp = _STAMP.match(line)
            if stamp is None:  # the rest of a very long line, or a message of the server
                text, when = line, b""
            else:
                text, when = line[stamp.end() + 1 :], stamp[0]
                is_new = self._place.new_of(stamp[0], 1) == 1
            if is_new:
                self._failing_since = None
                await self._lines.add(STDOUT, when, text + b"\n")

    def _can_retry(self, error: ApiError | TransportError) -> bool:
        """Return whether to retry after an error: yes, until a while after `finish`.

        Warn the user of the first error of the server in a row, and of the output that is missing at the end.
        """
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            if isinstance(error, ApiError):
                self._warn(f"cannot read the output of {self._name}, trying again: {error}")
        if self._over_since is None or now - max(self._failing_since, self._over_since) < LAST_WORDS_SECONDS:
            return True
        self._warn(f"the end of the output of {self._name} is missing: {error}")
        return False


class _Place(Struct):
    """The position up to which a log has been shown: a time stamp, and how many lines with this stamp were shown."""

    stamp: bytes = b""
    shown: int = 0  # the number of shown lines with this stamp
    skip: int = 0  # how many of them to skip when the log is read again

    def again(self) -> "_Place":
        """Return the position for a log that is read again from its beginning."""
        return _Place(self.stamp, self.shown, self.shown)

    def new_of(self, stamp: bytes, lines: int) -> int:
        """Count the next lines, which all have this stamp; return how many of them, the last ones, were not shown."""
        if stamp < self.stamp:
            return 0
        if stamp > self.stamp:
            self.stamp, self.shown, self.skip = stamp, lines, 0
            return lines
        passed = min(self.skip, lines)
        self.skip -= passed
        self.shown += lines - passed
        return lines - passed


class _ShownBytes(Struct):
    """The number of bytes of an attempt's output that were shown, or reported as missing."""

    attempt: int = -1
    bytes: int = 0
    at_start: bool = True  # whether the reader is at the start of the log, perhaps again

    def count_shown(self, size: int) -> None:
        """Count this many more bytes as shown."""
        self.bytes += size
        self.at_start = False

    def count_missing(self, part: AttemptRecord | Missing) -> int:
        """Count the bytes that a part reports as missing; return how many were neither shown nor reported before.

        A part that begins an attempt reports none, and resets the count for a new attempt.
        """
        if isinstance(part, AttemptRecord):
            self.at_start = True
            if part.number != self.attempt:
                self.attempt, self.bytes = part.number, 0
            return 0
        # At the start the part counts from the beginning of the attempt, later from the byte that was read last.
        gone = max(part.bytes - self.bytes, 0) if self.at_start else part.bytes
        self.bytes += gone
        return gone


def has_log(status: ContainerStatus) -> bool:
    """Return whether an attempt of the container has begun, so that there may be output."""
    return any((status.state.running, status.state.terminated, status.last_state.terminated))


def _may_restart(pod: Pod, container: str) -> bool:
    sidecars = (init.name for init in pod.spec.init_containers if is_sidecar(init))
    return pod.spec.restart_policy != "Never" or container in sidecars
