"""Shows what one container prints: every line once, over all its attempts, whatever becomes of connections.

Our own server gives the log as the node keeps it (`raw`): so what comes out is what the program wrote, byte for byte,
with stdout and stderr apart, and what has been rotated away is known. Others give text, all of it shown as stdout.

The API gives the log of a container's newest attempt, and of the one before it; it does not say which attempt that is.
But stamps grow from attempt to attempt, so one place in time serves for all of them. The stream of the newest attempt
is opened first and held while the one before is read: so what that one still has to say comes first.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeAlias

from muster.actions.following.excerpt import WHOLE, Excerpt, Lines
from muster.api.core import POD, ContainerStatus, Pod
from muster.api.pods import is_sidecar
from muster.api.status import ApiError
from muster.runtime.client import Client, lines
from muster.runtime.clock import Clock
from muster.runtime.containerlogs import STDERR, STDOUT, Attempt, Missing, Run, read_raw
from muster.runtime.transport import Request, TransportError

# A log stream that broke is taken up again after so long.
RETRY_SECONDS = 0.5
# Of a job that is over, output that cannot be read is waited for so long.
LAST_WORDS_SECONDS = 30.0

# The time up to microseconds, the rest of it, and its zone.
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
        """`raw`: the server is ours. `warn` gets what the user should know of lines that do not come."""
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
        self._tail = excerpt.tail  # until something has been read
        self._warn = warn
        self._news = asyncio.Event()
        self._place = _Place()
        self._told = _Told()
        self._was_let_in = False  # the server has shown it already
        self._unended: set[bytes] = set()  # streams whose last line has no end so far
        self._failing_since: float | None = None
        self._over_since: float | None = None
        self.is_cut = False  # the pod went before all of its log could be read

    def observe(self, status: ContainerStatus) -> None:
        """The container is now like this."""
        self._status = status
        self._news.set()

    def finish(self) -> None:
        """No more attempts will begin: `copy` may end."""
        self._over_since = self._clock.monotonic()
        self._news.set()

    async def copy(self) -> None:
        """Show all attempts, until `finish`. Raises `ApiError` if the server refuses for good."""
        await self._copy()
        await self._lines.finish()

    async def _copy(self) -> None:
        while True:
            attempt = self._status.restart_count
            if not await self._read() or not self._restarts:
                return
            while self._status.restart_count == attempt:
                if self._over_since is not None:
                    return
                self._news.clear()
                await self._news.wait()

    async def copy_once(self, path: str, query: Mapping[str, str]) -> None:
        """Show what there is now of the log that is there. Raises `ApiError`, `TransportError`."""
        self._path = path
        async with self._open(**query) as log:
            await self._print(log)
        await self._lines.finish()

    async def _read(self) -> bool:
        """Show the newest attempt to its end, and what is still missing of the one before; False if the pod is gone."""
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
                    return True  # it ended before it had a log
                if not self._may_pass(error):
                    raise
                trouble = error
            else:
                return True
            if not self._goes_on(trouble):
                return False
            await self._clock.sleep(RETRY_SECONDS)

    def _may_pass(self, error: ApiError) -> bool:
        """Whether to ask again. A server that has just started refuses all until it has read who has which rights."""
        return error.code == 429 or error.code >= 500 or (error.code == 403 and self._was_let_in)

    async def _catch_up(self) -> None:
        """Show what has not been shown of the attempt before the newest."""
        try:
            # Other servers pass over what they do not know, and show the last run that has ended.
            async with self._open(previous="true", beforeNewest="true") as previous:
                await self._print(previous)
        except ApiError as error:
            if error.code != 400:  # there is none
                raise

    def _open(self, **which: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        query = {"container": self._status.name, "timestamps": "true", **which}
        if self._raw:
            query["raw"] = "true"
        if shown := _STAMP.match(self._place.stamp):  # servers may know less of a second, and must not round it up
            query["sinceTime"] = (shown[1] + shown[2]).decode()
        elif self._since is not None:
            query["sinceTime"] = self._since.isoformat()
        if self._tail is not None and not self._place.stamp:
            query["tailLines"] = str(self._tail)
        return self._client.transport.stream(Request("GET", self._path, query))

    async def _print(self, chunks: AsyncIterator[bytes]) -> None:
        """Show what has not been shown of an attempt's log."""
        self._place = self._place.again()
        await (self._print_raw(chunks) if self._raw else self._print_text(chunks))

    async def _print_raw(self, chunks: AsyncIterator[bytes]) -> None:
        rest = b""
        async for chunk in chunks:
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            for part in read_raw(whole + newline):
                if isinstance(part, Run):
                    await self._show_run(part)
                    continue
                if isinstance(part, Attempt) and part.number != self._told.attempt:
                    await self._end_lines()
                if missing := self._told.missing(part):
                    await self._show(STDERR, b"[muster: %d bytes are missing here]\n" % missing)

    async def _show_run(self, run: Run) -> None:
        text = run.text
        if shown := run.lines - self._place.new_of(run.stamp, run.lines):
            text = text.split(b"\n", shown)[shown] if shown < run.lines else b""
        if text:
            self._failing_since = None
            self._told.shown(len(text))
            (self._unended.add if run.goes_on else self._unended.discard)(run.stream)
            await self._lines.add(run.stream, run.stamp, text)

    async def _end_lines(self) -> None:
        """An attempt begins: what the one before it has left unended is not the start of its first line."""
        while self._unended:
            await self._lines.add(self._unended.pop(), b"", b"\n")

    async def _print_text(self, chunks: AsyncIterator[bytes]) -> None:
        is_new = True
        async for line in lines(chunks):
            stamp = _STAMP.match(line)
            if stamp is None:  # the rest of a very long line, or a word of the server's own
                text, when = line, b""
            else:
                text, when = line[stamp.end() + 1 :], stamp[0]
                is_new = self._place.new_of(stamp[0], 1) == 1
            if is_new:
                self._failing_since = None
                await self._lines.add(STDOUT, when, text + b"\n")

    def _goes_on(self, error: ApiError | TransportError) -> bool:
        """Whether to try again; the user hears of it where the server itself is well."""
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            if isinstance(error, ApiError):
                self._warn(f"cannot read the output of {self._name}, trying again: {error}")
        if self._over_since is None or now - max(self._failing_since, self._over_since) < LAST_WORDS_SECONDS:
            return True
        self._warn(f"the end of the output of {self._name} is missing: {error}")
        return False


@dataclass(slots=True)
class _Place:
    """How far a log has been shown. Lines are in the order of their stamps, which several may share."""

    stamp: bytes = b""
    shown: int = 0  # lines with that stamp
    skip: int = 0  # of these, lines still to be passed by when the log is read again

    def again(self) -> "_Place":
        """The same place in a log that is read from its beginning."""
        return _Place(self.stamp, self.shown, self.shown)

    def new_of(self, stamp: bytes, lines: int) -> int:
        """How many of the next lines, all with that stamp, have not been shown: the last ones."""
        if stamp < self.stamp:
            return 0
        if stamp > self.stamp:
            self.stamp, self.shown, self.skip = stamp, lines, 0
            return lines
        passed = min(self.skip, lines)
        self.skip -= passed
        self.shown += lines - passed
        return lines - passed


@dataclass(slots=True)
class _Told:
    """How much of an attempt's text the user has seen, or knows to be missing."""

    attempt: int = -1
    bytes: int = 0
    at_start: bool = True  # of a log that is read, perhaps once more

    def shown(self, size: int) -> None:
        """So much more."""
        self.bytes += size
        self.at_start = False

    def missing(self, part: Attempt | Missing) -> int:
        """How many bytes this says to be missing that were neither shown before nor told."""
        if isinstance(part, Attempt):
            self.at_start = True
            if part.number != self.attempt:
                self.attempt, self.bytes = part.number, 0
            return 0
        # At the start it counts from the beginning of the attempt, later from what was read last.
        gone = max(part.bytes - self.bytes, 0) if self.at_start else part.bytes
        self.bytes += gone
        return gone


def has_log(status: ContainerStatus) -> bool:
    """Whether an attempt has begun, so that there may be output."""
    return any((status.state.running, status.state.terminated, status.last_state.terminated))


def _may_restart(pod: Pod, container: str) -> bool:
    sidecars = (init.name for init in pod.spec.init_containers if is_sidecar(init))
    return pod.spec.restart_policy != "Never" or container in sidecars
