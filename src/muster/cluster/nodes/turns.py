"""Lends a limited number of places to the pods of a node: namespaces take turns, and so do the pods within one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from muster.api.core import Pod
from muster.runtime.lanes import Lanes

# After this time a place is free again: a pod that hangs holds up no other.
LONGEST_SECONDS = 1.0


class Turns:
    """The places for work that takes time from all pods of the node.

    Each work begins in an iteration of the event loop of its own. Invariant: while somebody waits, no place is free.
    """

    def __init__(self, places: int) -> None:
        self._free_places = places
        self._beginning = asyncio.Lock()
        self._waiting: Lanes[asyncio.Future[None]] = Lanes()  # by namespace and pod; some may be cancelled

    @asynccontextmanager
    async def turn(self, pod: Pod, longest_seconds: float | None = LONGEST_SECONDS) -> AsyncIterator[None]:
        """Hold a place while the context lasts. After `longest_seconds` others may begin beside it."""
        await self._take_place(pod.metadata.namespace, pod.metadata.uid)
        is_lent = True

        def give_back() -> None:
            nonlocal is_lent
            if is_lent:
                is_lent = False
                self._release_place()

        loop = asyncio.get_running_loop()
        timer = loop.call_later(longest_seconds, give_back) if longest_seconds is not None else None
        try:
            async with self._beginning:
                await asyncio.sleep(0)
            yield
        finally:
            if timer is not None:
                timer.cancel()
            give_back()

    async def _take_place(self, namespace: str, uid: str) -> None:
        if self._free_places:
            self._free_places -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add((namespace, uid), waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # the waiter got its place in the same moment
                self._release_place()
            raise

    def _release_place(self) -> None:
        """Give the place to the next waiter, or free it."""
        waiter = self._waiting.pop(lambda waiter: not waiter.done())
        if waiter is not None:
            waiter.set_result(None)
        else:
            self._free_places += 1
