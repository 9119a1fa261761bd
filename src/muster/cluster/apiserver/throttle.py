"""Limit how many requests of one namespace the server works on while another namespace, or a user, waits for it.

A small job takes some two hundred iterations of the event loop, one after the other, and each iteration lasts as long
as the work on all requests in it. A controller that creates a thousand objects sends as many requests at once as it
may. So the throttle counts the requests of the cluster's own components by namespace. While another namespace is
active, the server works on `FEW` requests of a namespace at a time. A namespace that is active alone is not limited.

A user's program that sends many requests at once counts like another namespace, for as long as at least `CROWD` of them
are under way. `muster apply` of a thousand jobs thus has its answers before the controllers do most of what follows.

The server works on a request until the store has numbered its write. After that the request waits for the disk, which
delays no other request: any number of writes may wait for one flush. The next request of the namespace starts
`REST_TURNS` iterations later, so that a small job takes that many steps between two steps of a large one. In an idle
loop those iterations take microseconds.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType

FEW = 4  # the requests of one namespace that the server always works on concurrently
REST_TURNS = 32  # iterations of the loop between the work on a request and on the next one of its namespace
LONGEST_SECONDS = 0.25  # a request that takes longer waits for something else, and no longer counts
CROWD = 16  # requests of users under way that count like another active namespace
USER_SECONDS = (
    3.0  # a user's request that takes longer waits for something else, such as a webhook, and no longer counts
)
QUIET_SECONDS = 1.0  # how long a namespace stays active after its last request

_request: ContextVar["_Request"] = ContextVar("request")  # the counted request of this context


def end_work() -> None:
    """Stop counting the current request as work of its namespace, so that another request may run.

    Call it when the request only waits for the disk. Do nothing for requests that are not counted.
    """
    if request := _request.get(None):
        request.end_work()


class _Share:
    """The counted and the waiting requests of one namespace.

    under_way: the number of current requests, including waiting ones.
    counted: the requests that the server works on, or that finished less than `REST_TURNS` iterations ago.
    timer: runs while requests wait; when it expires, no request counts any more.
    """

    __slots__ = ("counted", "namespace", "timer", "under_way", "waiting")

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.under_way = 0
        self.counted: set[_Request] = set()
        self.waiting: deque[tuple[asyncio.Future[None], _Request]] = deque()
        self.timer: asyncio.TimerHandle | None = None


class NamespaceThrottle:
    """The limit on concurrent work for one namespace while other namespaces, or many users' requests, need the server.

    Invariant: a request waits only while `FEW` others of its namespace count. It continues when one of these stops
    counting or the timer expires, so a webhook that hangs delays no other request for long.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._users: dict[_UserRequest, float] = {}  # the start of each request of a user, the oldest first
        self._shares: dict[str, _Share] = {}  # the shares of namespaces with requests under way
        self._newest = self._older = ""  # the two namespaces with the newest requests, and the times of these
        self._newest_at = self._older_at = float("-inf")

    def of_user(self) -> "_UserRequest":
        """Return the context of a user's request, which is never delayed."""
        return _UserRequest(self._users, self._monotonic)

    def of(self, namespace: str) -> "_Request":
        """Return the context of a request. Entering it waits until the request may run.

        The request counts until `end_work` is called in the context, or the context closes.
        """
        return _Request(self, namespace)

    def enter(self, namespace: str) -> _Share:
        """Add a request to its namespace's share, and return the share."""
        share = self._shares.get(namespace)
        if share is None:
            share = self._shares[namespace] = _Share(namespace)
        share.under_way += 1
        if namespace != self._newest:
            self._older, self._older_at = self._newest, self._newest_at
            self._newest = namespace
        self._newest_at = self._monotonic()
        return share

    def leave(self, share: _Share) -> None:
        """Remove a finished request from its share."""
        share.under_way -= 1
        if not share.under_way:
            del self._shares[share.namespace]

    def may_begin(self, share: _Share) -> bool:
        """Return whether the server may work on one more request of the namespace.

        It may if fewer than `FEW` are counted, or if neither another namespace nor a crowd of users sends requests.
        """
        if len(share.counted) < FEW:
            return True
        if self._count_users() >= CROWD:
            return False
        other_at = self._older_at if share.namespace == self._newest else self._newest_at
        return other_at + QUIET_SECONDS < self._monotonic()

    def _count_users(self) -> int:
        """Return the number of users' requests under way, without the requests that wait for something else."""
        limit = self._monotonic() - USER_SECONDS
        while self._users and self._users[oldest := next(iter(self._users))] < limit:
            del self._users[oldest]
        return len(self._users)

    async def wait(self, share: _Share, request: "_Request") -> None:
        """Wait until a request may run, and count it from then on."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        share.waiting.append((waiter, request))
        if share.timer is None:
            share.timer = loop.call_later(LONGEST_SECONDS, self._stop_counting_all, share)
        await waiter

    def stop_counting_after(self, share: _Share, request: "_Request", turns: int) -> None:
        """Count a request for this many more iterations (`turns`) of the loop, then let waiting requests run."""
        if turns:
            asyncio.get_running_loop().call_soon(self.stop_counting_after, share, request, turns - 1)
            return
        share.counted.discard(request)
        self._wake_waiting(share)
        if share.timer is not None and not share.waiting:
            share.timer.cancel()
            share.timer = None

    def _stop_counting_all(self, share: _Share) -> None:
        """Stop counting all requests of a namespace, because others have waited for `LONGEST_SECONDS`."""
        share.timer = None
        share.counted.clear()
        self._wake_waiting(share)
        if share.waiting:
            share.timer = asyncio.get_running_loop().call_later(LONGEST_SECONDS, self._stop_counting_all, share)

    def _wake_waiting(self, share: _Share) -> None:
        while share.waiting and self.may_begin(share):
            waiter, request = share.waiting.popleft()
            if not waiter.done():
                share.counted.add(request)
                waiter.set_result(None)


class _UserRequest:
    """The context of one request of a user."""

    __slots__ = ("_monotonic", "_starts")

    def __init__(self, starts: "dict[_UserRequest, float]", monotonic: Callable[[], float]) -> None:
        self._starts = starts
        self._monotonic = monotonic

    def __enter__(self) -> None:
        self._starts[self] = self._monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._starts.pop(self, None)


class _Request:
    """The context of one request.

    It is a class, because `asynccontextmanager` costs every write several times as much.
    """

    __slots__ = ("_is_over", "_share", "_throttle", "_token")

    def __init__(self, throttle: NamespaceThrottle, namespace: str) -> None:
        self._throttle = throttle
        self._share = throttle.enter(namespace)
        self._is_over = False

    async def __aenter__(self) -> None:
        self._token: Token[_Request] = _request.set(self)
        try:
            if self._share.waiting or not self._throttle.may_begin(self._share):
                await self._throttle.wait(self._share, self)
            else:
                self._share.counted.add(self)
        except BaseException:
            self._leave()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def end_work(self) -> None:
        """Stop counting this request: at once, or after `REST_TURNS` iterations if others of its namespace wait."""
        if self._is_over:
            return
        self._is_over = True
        if self._share.waiting:
            self._throttle.stop_counting_after(self._share, self, REST_TURNS)
        else:
            self._share.counted.discard(self)

    def _leave(self) -> None:
        _request.reset(self._token)
        self.end_work()
        self._throttle.leave(self._share)
