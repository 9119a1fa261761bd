"""Keeps the turns of the event loop short while there is much to do.

A loop runs everything that is ready before it looks at its timers and sockets again: two hundred requests that become
ready together would make everybody else wait for all of them. So each asks for its turn: those that come when a slice
of time is used up wait for the next turns of the loop. They wait in lines, which take theirs one after the other: one
line for each user, and one more for all watches of a user, which keep no request waiting. The cluster's own controllers
and nodes work for everybody as one user: their requests have a line for each namespace, and their watches one for each
resource. So what a busy namespace brings is seen by all of them before more of it is made.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from muster.runtime.lanes import Lanes

SLICE_SECONDS = 0.004
CALLED_AT_ONCE = 16  # in each turn of the loop, which costs as much as a small request


class Line(NamedTuple):
    """Who waits together. `part`: what a request or a watch of the cluster's own parts is about."""

    user: str
    watches: bool = False
    part: str = ""


class Turns:
    """Hands out turns.

    Invariant: while a request waits, `_next` is scheduled, and one that comes waits too.
    """

    def __init__(self, monotonic: Callable[[], float], slice_seconds: float = SLICE_SECONDS) -> None:
        self._monotonic = monotonic
        self._slice = slice_seconds
        self._began: float | None = None  # when this turn of the loop did
        self._is_begun = True  # the first of those who were called has gone on
        self._gone_on = 0  # how many have in this turn
        self._waiting: Lanes[asyncio.Future[None]] = Lanes()  # by line
        self._passed: deque[asyncio.Future[None]] = deque()  # who were called when the slice was used up

    async def take(self, line: Line) -> None:
        """Return when there is time."""
        now = self._monotonic()
        loop = asyncio.get_running_loop()
        if self._began is None:
            self._began = now
            loop.call_soon(self._next)
        if self._waiting or self._passed or now - self._began >= self._slice:
            waiter = loop.create_future()
            self._waiting.add((line,), waiter)
            await waiter
            while not self._may_go_on():
                waiter = loop.create_future()
                self._passed.append(waiter)
                await waiter
        self._gone_on += 1

    def _may_go_on(self) -> bool:
        """Whether one who was called may: the first of them, and who comes while the slice lasts."""
        now = self._monotonic()
        if not self._is_begun:
            self._is_begun, self._began = True, now
        return self._began is None or now - self._began < self._slice

    def _next(self) -> None:
        """The loop has come round: call the next ones, and then those behind them.

        One more than could go on in the last turn: to be called in vain costs a good part of what a small request does.
        But all who were called already, for they keep their order among themselves.
        """
        at_most, self._gone_on = max(min(self._gone_on + 1, CALLED_AT_ONCE), len(self._passed)), 0
        called = 0
        while called < at_most and (waiter := self._first()) is not None:
            waiter.set_result(None)
            called += 1
        if not called:
            self._began = None
            return
        self._is_begun = False
        self._began = self._monotonic()
        asyncio.get_running_loop().call_soon(self._next)

    def _first(self) -> asyncio.Future[None] | None:
        """Take out the next one who has not gone away, of each line in turn."""
        while self._passed:
            waiter = self._passed.popleft()
            if not waiter.done():
                return waiter
        return self._waiting.pop(_is_waiting)


def _is_waiting(waiter: asyncio.Future[None]) -> bool:
    return not waiter.done()
