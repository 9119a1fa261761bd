"""Looks again at what a cluster has whenever that changes: soon, but not all the time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.status import ApiError
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.ids import Random
from muster.runtime.informer import Informer
from muster.runtime.tasks import together
from muster.runtime.transport import TransportError

# Between two looks there are at least so many seconds, and so many times what a look takes: a big cluster is not kept
# busy by those who watch it.
LEAST_SECONDS, REST = 0.5, 4.0
# After so many seconds there is another look in any case: ages grow, and not all that is shown can be watched.
MOST_SECONDS = 5.0


@dataclass(slots=True)
class Watch:
    """Watches kinds of objects of a namespace; "" is all. Who may not watch them sees changes a little later."""

    client: Client
    clock: Clock
    random: Random
    kinds: Sequence[Kind[Any]]
    namespace: str
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def look_again(self) -> None:
        """There is a reason to."""
        self._changed.set()

    async def run(self, look: Callable[[], Awaitable[None]]) -> None:
        """Look now, and again after every change, until cancelled. Raises what `look` raises."""
        await together(self._looking(look), *(self._informer(kind).run() for kind in self.kinds))

    def _informer(self, kind: Kind[Any]) -> Informer[Object]:
        namespace = self.namespace if kind.namespaced else ""
        seen: Informer[Object] = Informer(
            self.client,
            kind.seen_as(Object),
            self.clock,
            self.random,
            namespace=namespace,
            optional=True,
            heard=self._heard,
        )
        seen.on_change(lambda _old, _new: self._changed.set())
        return seen

    def _heard(self, trouble: ApiError | TransportError | None) -> None:
        """Whether the server is there is for the next look to find out."""
        if isinstance(trouble, TransportError):
            self._changed.set()

    async def _looking(self, look: Callable[[], Awaitable[None]]) -> NoReturn:
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
