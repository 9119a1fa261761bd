"""Limit concurrent work: requests wait for seats, users take turns, and excessive requests get 429.

The model is API priority and fairness of Kubernetes, with one priority level and one flow for each user:

- A request takes room for its body from the moment the body begins to arrive until the response exists.
- A request takes seats when its body is complete, and gives them back when the response exists. A big request takes
  several.
- A list also takes places among the lists, and keeps them until its client has read the response. So slow readers of
  lists delay no other requests.
- A stream takes no seat; it counts against a separate limit.
- A user has at most half of the capacity that the other users leave. So the first user gets much, and another user
  always finds some.
- A request that finds no seat waits in its user's queue. The queues take turns with free seats.

The engine in this process calls the pipeline directly, without these limits.

Invariant: no waiting request could have been served when it arrived, or at any change since.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import Struct, field

from muster.api.status import ApiError, too_many_requests
from muster.cluster.apiserver.front.loans import Loans
from muster.runtime.metrics import Gauges, Registry
from muster.runtime.transport import Request

BYTES_PER_SEAT = 64 * 1024  # the body size that one seat covers, and the size of one block of room
OBJECTS_PER_SEAT = 100  # the listed objects that one seat covers, as upstream
LIST_SEATS = 8  # for a list without a limit; no list takes more
RETRY_AFTER_SECONDS = 1
# Waking a watch costs as much as sending some ten changes. So each watch rests this long for every open stream.
REST_SECONDS = 0.0004
MAX_REST_SECONDS = 0.05
FEW_STREAMS = 10


class Limits(Struct, frozen=True):
    """The limits of one server, for the sum of all users.

    Of seats, room and streams, one user gets at most half of the part that the other users leave free.

    seats: the number of seats.
    room: the room for the bodies of requests, in blocks of `BYTES_PER_SEAT`.
    streams: how many watches, logs and other streams may be open.
    readers: how many big bodies may be decoded concurrently.
    waiting: how many requests may wait for one limit. One connection of HTTP/2 can send hundreds.
    wait_seconds: how long a request waits before it gets 429.
    """

    seats: int = 256
    room: int = 2048
    streams: int = 4096
    readers: int = 1
    waiting: int = 16_384
    wait_seconds: float = 15.0


def seats_for(method: str, path: str, limit: str, body_bytes: int) -> int:
    """Return the number of seats that a request takes; 0 for a cheap request.

    limit: the query parameter `limit`, as text.
    """
    if path.startswith("/openapi/"):
        return LIST_SEATS
    if not path.startswith(("/api/", "/apis/")):
        return 0
    if method in ("GET", "DELETE") and _is_collection(path):
        known = limit.isascii() and limit.isdigit() and len(limit) < 10
        return min(1 + (int(limit) - 1) // OBJECTS_PER_SEAT, LIST_SEATS) if known and int(limit) else LIST_SEATS
    return room_for(body_bytes)


def _count_seats(request: Request, body_bytes: int) -> int:
    return seats_for(request.method, request.path, request.query.get("limit", ""), body_bytes)


def _is_list(request: Request, seats: int) -> bool:
    return request.method == "GET" and seats > 1


def room_for(body_bytes: int) -> int:
    """Return how many blocks of `BYTES_PER_SEAT` a body of this size takes in the server's room for bodies."""
    return 1 + body_bytes // BYTES_PER_SEAT


def _is_collection(path: str) -> bool:
    """Return whether the path probably names a collection.

    The depth of the path decides, because a full parse would slow down each request.
    """
    depth = path.count("/") - path.startswith("/apis/")  # /api/v1/pods, /api/v1/namespaces/default/pods
    return depth == 3 or (depth == 5 and "/namespaces/" in path)


class _Waiter(NamedTuple):
    wanted: int
    served: asyncio.Future[int]


class _User(Struct):
    """The shares of one user.

    has: the number of shares that are lent to the user.
    line: the user's waiting requests, the oldest first.
    """

    has: int = 0
    line: deque[_Waiter] = field(default_factory=deque)

    @property
    def is_idle(self) -> bool:
        return not (self.has or self.line)


class Shares:
    """A fixed number of shares that are lent to users.

    refusal: makes the error for a reason, and counts it.
    """

    def __init__(self, total: int, limits: Limits, refusal: Callable[[str], ApiError]) -> None:
        self._total = total
        self._limits = limits
        self._refusal = refusal
        self._users: dict[str, _User] = {}
        self._turns: deque[_User] = deque()  # users with a waiting request; the next to be served comes first
        self.lent = 0

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return sum(len(user.line) for user in self._turns)

    def take_at_once(self, name: str, count: int) -> int:
        """Take `count` shares if they are free; return how many to give back (0 if none were taken).

        If a user without shares requests more than the user's limit, the user gets the limit.
        """
        user = self._users.get(name)
        if user is None:
            user = self._users[name] = _User()
        taken = 0 if user.line else self._lend(user, count)
        self._forget(name, user)
        return taken

    async def take(self, name: str, count: int) -> int:
        """Take shares as `take_at_once` does, but wait until they are free. Raises `ApiError` (429)."""
        if taken := self.take_at_once(name, count):
            return taken
        user = self._users.setdefault(name, _User())
        others = self.waiting - len(user.line)
        if len(user.line) >= max((self._limits.waiting - others) // 2, 1):
            raise self._refusal("queue-full")
        return await self._wait(name, user, count)

    def borrow_at_once(self, name: str, count: int, loans: Loans) -> bool:
        """Take shares as `take_at_once` does, and give them back when `loans` closes; return whether any were taken."""
        if taken := self.take_at_once(name, count):
            loans.callback(self.give_back, name, taken)
        return taken > 0

    async def borrow(self, name: str, count: int, loans: Loans) -> None:
        """Take shares as `take` does, and give them back when `loans` closes. Raises `ApiError` (429)."""
        loans.callback(self.give_back, name, await self.take(name, count))

    def give_back(self, name: str, count: int) -> None:
        """Give back shares, and serve waiting requests with them."""
        user = self._users[name]
        user.has -= count
        self.lent -= count
        self._call()
        self._forget(name, user)

    async def _wait(self, name: str, user: _User, count: int) -> int:
        waiter = _Waiter(count, asyncio.get_running_loop().create_future())
        if not user.line:
            self._turns.append(user)
        user.line.append(waiter)
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                return await waiter.served
        except BaseException as error:
            if waiter.served.cancelled():
                self._give_up(user, waiter)
                self._forget(name, user)
            else:  # the shares were lent in the same turn of the loop
                self.give_back(name, waiter.served.result())
            if isinstance(error, TimeoutError):
                raise self._refusal("time-out") from None
            raise

    def _give_up(self, user: _User, waiter: _Waiter) -> None:
        if waiter in user.line:  # `_call` has removed a cancelled waiter already if its turn came
            user.line.remove(waiter)
            if not user.line:
                self._turns.remove(user)
            self._call()

    def _call(self) -> None:
        """Lend shares to the waiting requests that fit. Users take turns with one request each."""
        passed = 0  # users in a row whose first request still does not fit
        while passed < len(self._turns):
            user = self._turns[0]
            waiter = user.line[0]
            is_cancelled = waiter.served.cancelled()
            lent = 0 if is_cancelled else self._lend(user, waiter.wanted)
            if not is_cancelled and not lent:
                self._turns.rotate(-1)
                passed += 1
                continue
            passed = 0
            user.line.popleft()
            self._turns.popleft()
            if user.line:
                self._turns.append(user)
            if lent:
                waiter.served.set_result(lent)

    def _lend(self, user: _User, count: int) -> int:
        """Lend `count` shares or none, and return how many were lent.

        A user without shares gets at most the user's limit, so that a request above the limit is served, too.
        """
        others = self.lent - user.has
        share = max((self._total - others) // 2, 1)
        if not user.has:
            count = min(count, share)
        if user.has + count > share or self.lent + count > self._total:
            return 0
        user.has += count
        self.lent += count
        return count

    def _forget(self, name: str, user: _User) -> None:
        if user.is_idle and self._users.get(name) is user:
            del self._users[name]


def rest_seconds(streams: int) -> float:
    """Return for how many seconds a watch pauses between two pieces; 0.0 if only few streams are open.

    streams: the number of open streams.
    """
    return 0.0 if streams < FEW_STREAMS else min(streams * REST_SECONDS, MAX_REST_SECONDS)


class Flow:
    """The resources that a server lends to requests: seats, room for bodies, places for streams, and their metrics."""

    def __init__(self, metrics: Registry, limits: Limits) -> None:
        self.seats = Shares(limits.seats, limits, self._make_refusal)
        self.lists = Shares(
            max(limits.seats // 2, 1), limits, self._make_refusal
        )  # lent until the client has read the list
        self.room = Shares(limits.room, limits, self._make_refusal)
        self.readers = Shares(limits.readers, limits, self._make_refusal)
        self._streams = Shares(limits.streams, limits, self._make_refusal)
        self._refusals = metrics.counter(
            "apiserver_flowcontrol_rejected_requests_total",
            "Requests that were told to come back later",
            ("flow_schema", "priority_level", "reason"),
        )
        metrics.add_computed(self._make_gauges)

    def open_stream(self, name: str) -> None:
        """Count one more open stream of a user. Raises `ApiError` (429)."""
        if not self._streams.take_at_once(name, 1):
            raise self._make_refusal("concurrency-limit")

    def take_seats_at_once(self, user: str, request: Request, body_bytes: int, taken: Loans) -> bool:
        """Borrow the seats of a request until `taken` closes; return whether the request has what it needs.

        Return False for a list, and while no seats are free. `take_seats` then waits.

        body_bytes: the size of the body, which may still be missing in the request.
        """
        seats = _count_seats(request, body_bytes)
        if _is_list(request, seats):
            return False
        return not seats or self.seats.borrow_at_once(user, seats, taken)

    async def take_seats(self, user: str, request: Request, body_bytes: int, taken: Loans, opened: Loans) -> None:
        """Wait for the seats of a request, and borrow them until `taken` closes.

        A list also borrows its places among the lists, until `opened` closes. Raises `ApiError` (429).

        body_bytes: as for `take_seats_at_once`.
        """
        if not (seats := _count_seats(request, body_bytes)):
            return
        if _is_list(request, seats):
            await self.lists.borrow(user, seats, opened)
        await self.seats.borrow(user, seats, taken)

    @property
    def rest_seconds(self) -> float:
        """The seconds that a watch pauses between two pieces; more if more streams are open."""
        return rest_seconds(self._streams.lent)

    def close_stream(self, name: str) -> None:
        """Stop counting a stream of a user."""
        self._streams.give_back(name, 1)

    def _make_refusal(self, reason: str) -> ApiError:
        self._refusals.labels(_LEVEL, _LEVEL, reason).inc()
        return too_many_requests("Too many requests, please try again later.", RETRY_AFTER_SECONDS)

    def _make_gauges(self) -> Iterator[Gauges]:
        labels = ("flow_schema", "priority_level")
        level = (_LEVEL, _LEVEL)
        for name, text, value in (
            ("current_executing_seats", "Seats that are taken", self.seats.lent),
            (
                "current_inqueue_requests",
                "Requests that wait for a seat",
                self.seats.waiting + self.lists.waiting,
            ),
        ):
            yield Gauges(f"apiserver_flowcontrol_{name}", text, labels, [(level, value)])
        yield Gauges("apiserver_longrunning_requests", "Streams that are open", (), [((), self._streams.lent)])


_LEVEL = "global-default"
