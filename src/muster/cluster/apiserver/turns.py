"""Keeps the turns of the event loop short while there is much to do.

A loop runs everything that is ready before it looks at its timers and sockets again: two hundred requests that become
ready together would make everybody else wait for all of them. So each asks for its turn: those that come when a slice
of time is used up wait for the next turns of the loop, one for each. They wait in lines, which take theirs one after
the other: a line for each user, and one more for all watches of one, which keep no request waiting.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

SLICE_SECONDS = 0.004


class Line(NamedTuple):
    """Who waits together."""

    user: str
    watches: bool = False


class Turns:
    """Hands out turns.

    Invariant: while somebody waits, `_next` is scheduled, and whoever comes waits too.
    """

    def __init__(self, monotonic: Callable[[], float], slice_seconds: float = SLICE_SECONDS) -> None:
        self._monotonic = monotonic
        self._slice = slice_seconds
        self._began: float | None = None  # when this turn of the loop did
        self._lines: dict[Line, deque[asyncio.Future[None]]] = {}  # next one first

    async def take(self, line: Line) -> None:
        """Return when there is time."""
        now = self._monotonic()
        loop = asyncio.get_running_loop()
        if self._began is None:
            self._began = now
            loop.call_soon(self._next)
        if not self._lines and now - self._began < self._slice:
            return
        waiter = loop.create_future()
        self._lines.setdefault(line, deque()).append(waiter)
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
        """Take out the next one who has not gone away, of each line in turn."""
        while self._lines:
            line = next(iter(self._lines))
            waiting = self._lines.pop(line)
            waiter = waiting.popleft()
            if waiting:
                self._lines[line] = waiting  # behind the others
            if not waiter.done():
                return waiter
        return None
