"""Refresh a view of a cluster soon after each change, but at a limited rate."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.status import ApiError
from muster.runtime.client import Client
from muster.runtime.ids import Random
from muster.runtime.informer import Informer
from muster.runtime.realclock import Clock
from muster.runtime.tasks import run_together
from muster.runtime.transport import TransportError

# The pause between two refreshes is at least this number of seconds, and this multiple of the duration of a refresh, so
# that users who watch a big cluster do not overload it.
LEAST_SECONDS, REST = 0.5, 4.0
# The maximum number of seconds between two refreshes: ages grow, and some of the shown data cannot be watched.
MOST_SECONDS = 5.0


@dataclass(slots=True)
class Watch:
    """A watch on kinds of objects in a namespace that calls a function after each change.

    namespace: the namespace to watch; "" for all namespaces.

    A user who may list but not watch these kinds sees changes a little later.
    """

    client: Client
    clock: Clock
    random: Random
    kinds: Sequence[Kind[Any]]
    namespace: str
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def look_again(self) -> None:
        """Make `run` call its `look` again as soon as after a change."""
        self._changed.set()

    async def run(self, look: Callable[[], Awaitable[None]]) -> None:
        """Call `look` now, and again after each change of an object of these kinds, until cancelled.

        Without a change, `look` is called periodically. Raises the errors of `look`.
        """
        await run_together(self._keep_looking(look), *(self._make_informer(kind).run() for kind in self.kinds))

    def _make_informer(self, kind: Kind[Any]) -> Informer[Object]:
        namespace = self.namespace if kind.namespaced else ""
        informer: Informer[Object] = Informer(
            self.client,
            kind.seen_as(Object),
            self.clock,
            self.random,
            namespace=namespace,
            optional=True,
            heard=self._on_trouble,
        )
        informer.on_change(lambda _old, _new: self._changed.set())
        return informer

    def _on_trouble(self, trouble: ApiError | TransportError | None) -> None:
        """Make `run` call its `look` again after a transport error, to check whether the server responds."""
        if isinstance(trouble, TransportError):
            self._changed.set()

    async def _keep_looking(self, look: Callable[[], Awaitable[None]]) -> NoReturn:
        while True:
            self._changed.clear()
            began = self.clock.monotonic()
            await look()
            await self.clock.sleep(max(LEAST_SECONDS, REST * (self.clock.monotonic() - began)))
            try:
                async with asyncio.timeout(MOST_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                continue


def survive_outages(
    look: Callable[[], Awaitable[None]], describe: Callable[[TransportError], str], tell: Callable[[str], None]
) -> Callable[[], Awaitable[None]]:
    """Return a version of `look` for `Watch.run` that does not fail while the server is unreachable.

    describe: returns the remark about an unreachable server.
    tell: called once with each different remark during an outage.

    Before the first success of `look`, transport errors are raised. Errors that the server returns are always raised.
    """
    has_succeeded, remarks = False, set[str]()

    async def look_on() -> None:
        nonlocal has_succeeded
        try:
            await look()
        except TransportError as error:
            if not has_succeeded:
                raise
            if (remark := describe(error)) not in remarks:
                remarks.add(remark)
                tell(remark)
        else:
            has_succeeded = True
            remarks.clear()

    return look_on
