"""Queue requests fairly, so that each iteration of the event loop stays short under load.

An event loop runs every ready callback before it polls its timers and sockets again. Two hundred requests that become
ready together would delay everything else. So each iteration works on requests for one slice of time, and further
requests wait for the next iterations.

Requests wait by flow, and the flows are served in rotation:

- Each user has one flow for requests, and one for all watches, so that watches delay no request.
- The cluster's own controllers and nodes act as one user. Their requests have a flow for each namespace, and their
  watches have one for each resource. So every controller receives the events of a busy namespace before more are made.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from muster.runtime.control.lanes import Lanes

SLICE_SECONDS = 0.004
CALLED_AT_ONCE = 16  # the most requests to wake in an iteration, which costs as much as one small request


class Flow(NamedTuple):
    """The requests, or the watches, of one user. They are served in the order of arrival.

    part: distinguishes the flows of the cluster's own components: by namespace for requests, by resource for watches.
    """

    user: str
    watches: bool = False
    part: str = ""


class FairQueue:
    """The queue of the requests in one event loop.

    Invariant: while a request waits, `_wake_next` is scheduled, and every new request waits too.
    """

    def __init__(self, monotonic: Callable[[], float], slice_seconds: float = SLICE_SECONDS) -> None:
        self._monotonic = monotonic
        self._slice = slice_seconds
        self._began: float | None = None  # when this iteration of the loop began
        self._is_begun = True  # whether the first of the woken requests has continued
        self._continued = 0  # how many requests have continued in this iteration
        self._waiting: Lanes[asyncio.Future[None]] = Lanes()  # by flow
        self._passed: deque[asyncio.Future[None]] = deque()  # requests that were woken when the slice was used up

    def take_at_once(self) -> bool:
        """Count a request if the server may work on it now; return whether it may. If not, it must wait in `take`."""
        now = self._monotonic()
        if self._began is None:
            self._began = now
            asyncio.get_running_loop().call_soon(self._wake_next)
        if self._waiting or self._passed or now - self._began >= self._slice:
            return False
        self._continued += 1
        return True

    async def take(self, flow: Flow) -> None:
        """Wait until the server may work on a request of this flow."""
        if self.take_at_once():
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiting.add((flow,), waiter)
        await waiter
        while not self._may_continue():
            waiter = loop.create_future()
            self._passed.append(waiter)
            await waiter
        self._continued += 1

    def _may_continue(self) -> bool:
        """Return whether a woken request may run now.

        The first request of a loop iteration always may; others may until the iteration's time slice is over.
        """
        now = self._monotonic()
        if not self._is_begun:
            self._is_begun, self._began = True, now
        return self._began is None or now - self._began < self._slice

    def _wake_next(self) -> None:
        """Wake the next requests in a new iteration of the loop, and schedule the iteration after it.

        Wake at most one request more than ran in the last iteration, because a needless wake-up costs much of a small
        request. All requests that were woken needlessly are woken again, which keeps their order.
        """
        at_most, self._continued = max(min(self._continued + 1, CALLED_AT_ONCE), len(self._passed)), 0
        called = 0
        while called < at_most and (waiter := self._pop_next()) is not None:
            waiter.set_result(None)
            called += 1
        if not called:
            self._began = None
            return
        self._is_begun = False
        self._began = self._monotonic()
        asyncio.get_running_loop().call_soon(self._wake_next)

    def _pop_next(self) -> asyncio.Future[None] | None:
        """Remove and return the next waiting request; None if there is none. Flows take turns."""
        while self._passed:
            waiter = self._passed.popleft()
            if not waiter.done():
                return waiter
        return self._waiting.pop(_is_waiting)


def _is_waiting(waiter: asyncio.Future[None]) -> bool:
    return not waiter.done()
