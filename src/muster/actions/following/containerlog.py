"""Copy the log of one container: each line exactly once, over all attempts, even if connections break.

An attempt is one run of the container between restarts. Muster's own server returns the log as the node stores it
(`raw`). Then the output equals what the program wrote byte for byte, stdout and stderr are separate, and the size of
rotated text is known. Other servers return text, all of which is shown as stdout.

The API returns the logs of a container's newest and previous attempts, without the number of the attempt. Timestamps
increase from attempt to attempt, so one timestamp is a position in all attempts. The reader opens the stream of the
newest attempt first, and keeps it open while it reads the rest of the previous attempt's log.
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

# The pause in seconds before a broken log stream is reopened.
RETRY_SECONDS = 0.5
# The seconds after a job's end during which reading the rest of its log is retried.
LAST_WORDS_SECONDS = 30.0

# The time down to microseconds, the remaining digits, and the zone.
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT[\d:]+(?:\.\d{1,6})?)\d*(\S*)")

Show: TypeAlias = Callable[[bytes, bytes], Awaitable[None]]
"""Gets what was written to a stream (STDOUT, STDERR): whole lines, or part of one."""


class ContainerLog:
    """The log of one container, in the order of its attempts."""

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

        raw: whether to request the raw log, which only Muster's own server has. It records missing bytes, too.
        show: called with each piece of output.
        warn: called with a sentence about missing lines.
        excerpt: which lines to show.
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
        self._tail = excerpt.tail  # the number of last lines to start from; None once any output has been read
        self._warn = warn
        self._status_changed: asyncio.Event | None = None  # of a log that is followed
        self._place = _Place()
        self._shown_bytes = _ShownBytes()
        self._was_let_in = False  # whether the server has allowed an earlier read
        self._unended: set[bytes] = set()  # streams whose last shown line has no line break yet
        self._failing_since: float | None = None
        self._over_since: float | None = None
        self.is_cut = False  # whether the pod was deleted before its whole log was read

    def observe(self, status: ContainerStatus) -> None:
        """Record the container's current status, and wake `copy` to continue reading."""
        self._status = status
        self._wake()

    def finish(self) -> None:
        """Report that no further attempt will start, so that `copy` may return."""
        self._over_since = self._clock.monotonic()
        self._wake()

    def _wake(self) -> None:
        if self._status_changed is not None:
            self._status_changed.set()

    async def copy(self) -> None:
        """Show the output of all attempts as it arrives. Return once `finish` was called and the last attempt ended.

        Raises `ApiError` if the server permanently refuses to return the log.
        """
        await self._copy_output()
        await self._lines.finish()

    async def _copy_output(self) -> None:
        import asyncio  # reading a log once needs no event loop

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
        """Show the current content of the log at this API path. Raises `ApiError`, `TransportError`."""
        self._path = path
        async with self._open(**query) as log:
            await self._print(log)
        await self._lines.finish()

    async def _read(self) -> bool:
        """Show the rest of the previous attempt's log and the whole newest log; return whether both were complete.

        The result is False if the pod was deleted, or if temporary errors lasted too long. Raises `ApiError` for any
        other error.
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
                    return True  # the container ended before it wrote a log
                if not self._is_temporary(error):
                    raise
                trouble = error
            else:
                return True
            if not self._can_retry(trouble):
                return False
            await self._clock.sleep(RETRY_SECONDS)

    def _is_temporary(self, error: ApiError) -> bool:
        """Return whether an error is temporary, so that a retry may succeed.

        A server that has just started refuses all requests until it has loaded the users' rights.
        """
        return error.code == 429 or error.code >= 500 or (error.code == 403 and self._was_let_in)

    async def _catch_up(self) -> None:
        """Show the lines of the previous attempt that have not been shown yet, if there was a previous attempt.

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
        if shown := _STAMP.match(self._place.stamp):  # a server with lower precision must not round the time up
            query["sinceTime"] = (shown[1] + shown[2]).decode()
        elif self._since is not None:
            query["sinceTime"] = self._since.isoformat()
        if self._tail is not None and not self._place.stamp:
            query["tailLines"] = str(self._tail)
        return self._client.transport.stream(Request("GET", self._path, query))

    async def _print(self, chunks: AsyncIterator[bytes]) -> None:
        """Show those lines of an attempt's log that have not been shown yet. The log starts at its beginning."""
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
                    return  # this log was read to its end before the attempt whose lines were shown last
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
        """Terminate the unfinished lines of the previous attempt, so that the new attempt starts on a new line."""
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
        """Return whether to retry after an error: yes, until a fixed time after `finish`.

        Warns the user of the first of several consecutive server errors, and of output that is missing at the end.
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
    """The position up to which a log has been shown: a timestamp, and the number of shown lines with that timestamp."""

    stamp: bytes = b""
    shown: int = 0  # the number of shown lines with this timestamp
    skip: int = 0  # the number of those lines still to skip while the log is read again

    def again(self) -> "_Place":
        """Return this position for a log that is read again from its beginning."""
        return _Place(self.stamp, self.shown, self.shown)

    def new_of(self, stamp: bytes, lines: int) -> int:
        """Advance past the next lines, which all have this timestamp; return how many of the last ones are new."""
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
    """The number of bytes of an attempt's log that were shown, or reported as missing."""

    attempt: int = -1
    bytes: int = 0
    at_start: bool = True  # whether the reader is at the start of the log, possibly for a second time

    def count_shown(self, size: int) -> None:
        """Add `size` to the number of shown bytes."""
        self.bytes += size
        self.at_start = False

    def count_missing(self, part: AttemptRecord | Missing) -> int:
        """Add the bytes that a part reports as missing; return how many of them were neither shown nor reported before.

        A part that starts a new attempt resets the count and reports no missing bytes.
        """
        if isinstance(part, AttemptRecord):
            self.at_start = True
            if part.number != self.attempt:
                self.attempt, self.bytes = part.number, 0
            return 0
        # At the start of a log, the part counts from the attempt's first byte; later, from the last byte that was read.
        gone = max(part.bytes - self.bytes, 0) if self.at_start else part.bytes
        self.bytes += gone
        return gone


def has_log(status: ContainerStatus) -> bool:
    """Return whether the container has started at least once, so that it may have a log."""
    return any((status.state.running, status.state.terminated, status.last_state.terminated))


def _may_restart(pod: Pod, container: str) -> bool:
    sidecars = (init.name for init in pod.spec.init_containers if is_sidecar(init))
    return pod.spec.restart_policy != "Never" or container in sidecars
