"""Keeps the turns of the event loop short while there is much to do.

A loop runs everything that is ready before it looks at its timers and sockets again: two hundred requests that become
ready together would make everybody else wait for all of them. So each asks for its turn: those that come when a slice
of time is used up wait for the next turns of the loop, one for each, and users take theirs one after the other.
"""

import asyncio
from collections import deque
from collections.abc import Callable

SLICE_SECONDS = 0.004


class Turns:
    """Hands out turns.

    Invariant: while somebody waits, `_next` is scheduled, and whoever comes waits too.
    """

    def __init__(self, monotonic: Callable[[], float], slice_seconds: float = SLICE_SECONDS) -> None:
        self._monotonic = monotonic
        self._slice = slice_seconds
        self._began: float | None = None  # when this turn of the loop did
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}  # of users who wait, next one first

    async def take(self, user: str) -> None:
        """Return when there is time."""
        now = self._monotonic()
        loop = asyncio.get_running_loop()
        if self._began is None:
            self._began = now
            loop.call_soon(self._next)
        if not self._lines and now - self._began < self._slice:
            return
        waiter = loop.create_future()
        self._lines.setdefault(user, deque()).append(waiter)
        await waiter

    def _next(self) -> None:
        """The loop has come round: the next one may go on, and only then the one behind it."""
        waiter = self._first()
        if waiter is None:
            self._began = None
            return
        self._began = self._monotonic()
        waiter.set_result(None)
        asyncio.get_running_loop().call_soon(self._next)

    def _first(self) -> asyncio.Future[None] | None:
        """Take out the next one who has not gone away, of each user in turn."""
        while self._lines:
            user = next(iter(self._lines))
            line = self._lines.pop(user)
            waiter = line.popleft()
            if line:
                self._lines[user] = line  # behind the others
            if not waiter.done():
                return waiter
        return None
