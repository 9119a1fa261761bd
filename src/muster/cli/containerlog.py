"""Shows what one container prints: every line once, over all its attempts, whatever becomes of connections.

The API gives the log of a container's newest attempt, and of the one before it; it does not say which attempt that is.
But stamps grow from attempt to attempt, so one place in time serves for all of them. The stream of the newest attempt
is opened first and held while the one before is read: so what that one still has to say comes first.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from muster.api.core import POD, ContainerStatus, Pod
from muster.api.pods import is_sidecar
from muster.api.status import ApiError
from muster.runtime.client import Client, lines
from muster.runtime.clock import Clock
from muster.runtime.transport import Request, TransportError

# A log stream that broke is taken up again after so long.
RETRY_SECONDS = 0.5
# Of a job that is over, output that cannot be read is waited for so long.
LAST_WORDS_SECONDS = 30.0

_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+\S*")


class ContainerLog:
    """The output of one container, in the order of its attempts."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        pod: Pod,
        status: ContainerStatus,
        *,
        show: Callable[[bytes], None],
        warn: Callable[[str], None],
    ) -> None:
        """`show` gets every line, `warn` what the user should know of lines that do not come."""
        self._client = client
        self._clock = clock
        self._path = POD.path(pod.metadata.namespace, pod.metadata.name, "log")
        self._name = pod.metadata.name
        self._status = status
        self._restarts = _may_restart(pod, status.name)
        self._show = show
        self._warn = warn
        self._news = asyncio.Event()
        self._place = _Place()
        self._failing_since: float | None = None
        self._over_since: float | None = None

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
        while True:
            attempt = self._status.restart_count
            if not await self._read() or not self._restarts:
                return
            while self._status.restart_count == attempt:
                if self._over_since is not None:
                    return
                self._news.clear()
                await self._news.wait()

    async def _read(self) -> bool:
        """Show the newest attempt to its end, and what is still missing of the one before; False if the pod is gone."""
        while True:
            try:
                async with self._open(follow="true") as newest:
                    if self._restarts:
                        await self._catch_up()
                    await self._print(newest)
            except TransportError as error:
                trouble: ApiError | TransportError = error
            except ApiError as error:
                if error.code == 404:
                    return False
                if error.code == 400 and self._status.state.running is None:
                    return True  # it ended before it had a log
                if error.code != 429 and error.code < 500:
                    raise
                trouble = error
            else:
                return True
            if not self._goes_on(trouble):
                return False
            await self._clock.sleep(RETRY_SECONDS)

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
        return self._client.transport.stream(Request("GET", self._path, query))

    async def _print(self, chunks: AsyncIterator[bytes]) -> None:
        """Show the lines of an attempt's log that have not been shown."""
        self._place = self._place.again()
        is_new = True
        async for line in lines(chunks):
            stamp = _STAMP.match(line)
            if stamp is None:  # the rest of a very long line, or a word of the server's own
                text = line
            else:
                text = line[stamp.end() + 1 :]
                is_new = self._place.is_new(stamp[0])
            if is_new:
                self._failing_since = None
                self._show(text)

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

    def is_new(self, stamp: bytes) -> bool:
        """Whether the next line, with that stamp, has not been shown."""
        if stamp < self.stamp:
            return False
        if stamp > self.stamp:
            self.stamp, self.shown, self.skip = stamp, 1, 0
            return True
        if self.skip:
            self.skip -= 1
            return False
        self.shown += 1
        return True


def has_log(status: ContainerStatus) -> bool:
    """Whether an attempt has begun, so that there may be output."""
    return any((status.state.running, status.state.terminated, status.last_state.terminated))


def _may_restart(pod: Pod, container: str) -> bool:
    sidecars = (init.name for init in pod.spec.init_containers if is_sidecar(init))
    return pod.spec.restart_policy != "Never" or container in sidecars
