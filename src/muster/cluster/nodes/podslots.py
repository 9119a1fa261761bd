"""Limit how many pods of a node do expensive work concurrently.

Slots go to waiting pods of each namespace in turn, and within a namespace to each pod in turn.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from muster.api.core import Pod
from muster.runtime.control.lanes import Lanes

# After this time a slot is free again, so that a pod that hangs does not block others.
LONGEST_SECONDS = 1.0


class PodSlots:
    """A limit on how many pods of a node do one kind of work concurrently.

    At most one pod starts the work in each iteration of the event loop. Invariant: while a pod waits, no slot is free.
    """

    def __init__(self, slots: int) -> None:
        self._free_slots = slots
        self._beginning = asyncio.Lock()
        self._waiting: Lanes[asyncio.Future[None]] = Lanes()  # by namespace and pod; some may be cancelled

    @asynccontextmanager
    async def hold(self, pod: Pod, longest_seconds: float | None = LONGEST_SECONDS) -> AsyncIterator[None]:
        """Wait for a slot, and hold it inside the `with` block, but at most for `longest_seconds`.

        After that time the slot is free for other pods, although the work continues. None means no limit.
        """
        await self._take_slot(pod.metadata.namespace, pod.metadata.uid)
        is_lent = True

        def release() -> None:
            nonlocal is_lent
            if is_lent:
                is_lent = False
                self._release_slot()

        loop = asyncio.get_running_loop()
        timer = loop.call_later(longest_seconds, release) if longest_seconds is not None else None
        try:
            async with self._beginning:
                await asyncio.sleep(0)
            yield
        finally:
            if timer is not None:
                timer.cancel()
            release()

    async def _take_slot(self, namespace: str, uid: str) -> None:
        if self._free_slots:
            self._free_slots -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add((namespace, uid), waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # the waiter got its slot in the same moment
                self._release_slot()
            raise

    def _release_slot(self) -> None:
        """Pass the slot to the next waiting pod, or free it."""
        waiter = self._waiting.pop(lambda waiter: not waiter.done())
        if waiter is not None:
            waiter.set_result(None)
        else:
            self._free_slots += 1
