"""Keeps the turns of the event loop short while there is much to do.

A loop runs everything that is ready before it looks at its timers and sockets again: two hundred requests that become
ready together would make everybody else wait for all of them. So each asks for its turn: those that come when a slice
of time is used up wait, in order, for the next turns of the loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable

SLICE_SECONDS = 0.004
_MAX_BATCH = 1024


class Turns:
    """Hands out turns.

    Invariant: while somebody waits, `_next` is scheduled, and whoever comes waits behind them.
    """

    def __init__(self, monotonic: Callable[[], float], slice_seconds: float = SLICE_SECONDS) -> None:
        self._monotonic = monotonic
        self._slice = slice_seconds
        self._began: float | None = None  # when this turn of the loop did
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._batch = 16  # how many of the waiting fit into a slice, as far as is known

    async def take(self) -> None:
        """Return when there is time."""
        now = self._monotonic()
        loop = asyncio.get_running_loop()
        if self._began is None:
            self._began = now
            loop.call_soon(self._next)
        if not self._waiting and now - self._began < self._slice:
            return
        waiter = loop.create_future()
        self._waiting.append(waiter)
        await waiter

    def _next(self) -> None:
        """The loop has come round: the next ones may go on."""
        if not self._waiting:
            self._began = None
            return
        now, began = self._monotonic(), self._began
        assert began is not None
        if now - began > self._slice:
            self._batch = max(self._batch // 2, 1)
        elif now - began < self._slice / 2:
            self._batch = min(self._batch * 2, _MAX_BATCH)
        self._began = now
        asyncio.get_running_loop().call_soon(self._next)
        for _ in range(min(self._batch, len(self._waiting))):
            waiter = self._waiting.popleft()
            if not waiter.done():  # it may have been cancelled
                waiter.set_result(None)
