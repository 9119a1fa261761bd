"""Restrains how many requests of one namespace the server works on while another namespace is active.

`Restraint` counts the requests of the cluster's own components, by namespace. A small job takes some two hundred turns
of the event loop, one after the other, and each turn lasts as long as the work on other requests in it. A controller
that makes a thousand objects sends as many requests at once as it may. Beside another active namespace the server works
on `FEW` of them at a time. A namespace that is active alone is never restrained.

The server works on a request until the store has numbered its write. After that the request waits for the disk, which
delays no other request: any number of writes may wait for one flush. The next request of the namespace starts
`REST_TURNS` turns later, so that a small job takes that many steps between two steps of a large one. In an idle loop
those turns take microseconds.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial

FEW = 4  # requests of one namespace that the server always works on at a time
REST_TURNS = 32  # turns of the loop between the work on a request and on the next one of its namespace
LONGEST_SECONDS = 0.25  # a request that takes longer waits for something else, and no longer counts
QUIET_SECONDS = 1.0  # how long a namespace stays active after its last request

_end_work: ContextVar[Callable[[], None]] = ContextVar("end_work")  # ends the work on the context's request


def end_work() -> None:
    """Stop counting the request that the caller works on, if it is counted, because it only waits for the disk now."""
    if end := _end_work.get(None):
        end()


@dataclass(slots=True, eq=False)
class _Request:
    """A request under way. `is_over`: whether the work on the request is over."""

    is_over: bool = False


@dataclass(slots=True)
class _Share:
    """The requests of one namespace."""

    under_way: int = 0
    counted: set[_Request] = field(default_factory=set)  # the requests that are worked on, or whose rest lasts
    waiting: deque[tuple[asyncio.Future[None], _Request]] = field(default_factory=deque)
    timer: asyncio.TimerHandle | None = None  # runs while requests wait; when it ends, no request counts any more


class Restraint:
    """The restraint of all namespaces.

    Invariant: a request waits only while `FEW` others of its namespace count. It goes on when one of those ends its
    work or the timer ends, so a webhook that hangs holds up no other request.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._shares: dict[str, _Share] = {}  # by namespace, for those with requests under way
        self._newest = self._older = ""  # the two namespaces with the newest requests, and the times of these
        self._newest_at = self._older_at = float("-inf")

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[None]:
        """Hold a request of a namespace in this context, until it may go on; it counts until `end_work` is called."""
        share = self._shares.get(namespace)
        if share is None:
            share = self._shares[namespace] = _Share()
        self._note(namespace)
        share.under_way += 1  # waiting requests included
        request = _Request()
        token = _end_work.set(partial(self._end_work, namespace, share, request))
        try:
            if share.waiting or not self._may(namespace, share):
                await self._wait(namespace, share, request)
            else:
                share.counted.add(request)
            yield
        finally:
            _end_work.reset(token)
            share.under_way -= 1
            if not request.is_over:
                self._end_work(namespace, share, request)
            if not share.under_way:
                del self._shares[namespace]

    def _note(self, namespace: str) -> None:
        if namespace != self._newest:
            self._older, self._older_at = self._newest, self._newest_at
            self._newest = namespace
        self._newest_at = self._monotonic()

    def _may(self, namespace: str, share: _Share) -> bool:
        if len(share.counted) < FEW:
            return True
        other_at = self._older_at if namespace == self._newest else self._newest_at
        return other_at + QUIET_SECONDS < self._monotonic()

    async def _wait(self, namespace: str, share: _Share, request: _Request) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        share.waiting.append((waiter, request))
        if share.timer is None:
            share.timer = loop.call_later(LONGEST_SECONDS, self._pass_over, namespace, share)
        await waiter

    def _pass_over(self, namespace: str, share: _Share) -> None:
        """Stop counting all requests of a namespace, as they have made others wait for `LONGEST_SECONDS`."""
        share.timer = None
        share.counted.clear()
        self._let_on(namespace, share)
        if share.waiting:
            share.timer = asyncio.get_running_loop().call_later(LONGEST_SECONDS, self._pass_over, namespace, share)

    def _end_work(self, namespace: str, share: _Share, request: _Request) -> None:
        """End the work on a request; if others wait, they go on after the namespace's rest."""
        if request.is_over:
            return
        request.is_over = True
        if share.waiting:
            self._rest(namespace, share, request, REST_TURNS)
        else:
            share.counted.discard(request)

    def _rest(self, namespace: str, share: _Share, request: _Request, turns: int) -> None:
        """Count a request for so many more turns of the loop, then let waiting requests go on."""
        if turns:
            asyncio.get_running_loop().call_soon(self._rest, namespace, share, request, turns - 1)
            return
        share.counted.discard(request)
        self._let_on(namespace, share)
        if share.timer is not None and not share.waiting:
            share.timer.cancel()
            share.timer = None

    def _let_on(self, namespace: str, share: _Share) -> None:
        while share.waiting and self._may(namespace, share):
            waiter, request = share.waiting.popleft()
            if not waiter.done():
                share.counted.add(request)
                waiter.set_result(None)
