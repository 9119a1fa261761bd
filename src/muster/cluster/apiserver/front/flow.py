"""How much may be under way at once: requests wait for seats, users take turns, and who asks for too much gets 429.

In the spirit of upstream's API priority and fairness, with one level and a flow for each user. A request takes room
while its body comes and is kept, and, once that is there, seats while it is worked on: one, or several if it is big. Of
both, no user has more than half of what the others leave: the first one gets much, the more there come the less, and
another user always finds some. A seat is given back once the answer is there; a list keeps as many places among lists
until its client has read it, so that slow readers of lists hold up no other requests. When there is none, a request
waits in its user's line, for which the same holds, and what is free goes to the lines in turn. Streams take no seats,
they are counted. The engine in this process asks without a wire and has no limit.

Invariant: a request that waits could not be served when it came, nor at any change since.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.api.status import ApiError, too_many_requests
from muster.runtime.metrics import Gauges, Registry

BYTES_PER_SEAT = 64 * 1024  # of a request's body, and of room for one
OBJECTS_PER_SEAT = 100  # of a list, as upstream
LIST_SEATS = 8  # for a list without a limit, and at most
RETRY_AFTER_SECONDS = 1
# To wake a watch costs as much as some ten changes in it: each rests so long for every stream there is.
REST_SECONDS = 0.0004
MAX_REST_SECONDS = 0.05
FEW_STREAMS = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be under way.

    seats: of all users together; one has at most half of what the others leave.
    room: for the bodies of all requests, in blocks of `BYTES_PER_SEAT`; of that, too.
    streams: watches, logs and the like; of those, too.
    readers: bodies that take long to read, at once.
    waiting: requests that wait for seats, and that wait for room: a connection of HTTP/2 brings hundreds.
    wait_seconds: how long one may wait for either.
    """

    seats: int = 256
    room: int = 2048
    streams: int = 4096
    readers: int = 1
    waiting: int = 16_384
    wait_seconds: float = 15.0


def seats_for(method: str, path: str, limit: str, body_bytes: int) -> int:
    """The seats that a request takes: 0 if it is cheap; `limit` is a list's, as in its query."""
    if path.startswith("/openapi/"):
        return LIST_SEATS
    if not path.startswith(("/api/", "/apis/")):
        return 0
    if method in ("GET", "DELETE") and _is_collection(path):
        known = limit.isascii() and limit.isdigit() and len(limit) < 10
        return min(1 + (int(limit) - 1) // OBJECTS_PER_SEAT, LIST_SEATS) if known and int(limit) else LIST_SEATS
    return room_for(body_bytes)


def room_for(body_bytes: int) -> int:
    """How much room a body takes."""
    return 1 + body_bytes // BYTES_PER_SEAT


def _is_collection(path: str) -> bool:
    """Whether the path ends with a plural, by its depth: a guess that costs next to nothing."""
    depth = path.count("/") - path.startswith("/apis/")  # /api/v1/pods, /api/v1/namespaces/default/pods
    return depth == 3 or (depth == 5 and "/namespaces/" in path)


class _Waiter(NamedTuple):
    wanted: int
    served: asyncio.Future[int]


@dataclass(slots=True)
class _User:
    """What one user has, and waits for."""

    has: int = 0
    line: deque[_Waiter] = field(default_factory=deque)

    @property
    def is_idle(self) -> bool:
        return not (self.has or self.line)


class Shares:
    """So many of something, lent to users. `refusal` says no, for a reason."""

    def __init__(self, total: int, limits: Limits, refusal: Callable[[str], ApiError]) -> None:
        self._total = total
        self._limits = limits
        self._refusal = refusal
        self._users: dict[str, _User] = {}
        self._turns: deque[_User] = deque()  # those who have a request in line, next one first
        self.lent = 0

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(len(user.line) for user in self._turns)

    def take_at_once(self, name: str, count: int) -> int:
        """Take so many, or all of the user's share, if that is free; returns how many to give back, 0 for none."""
        user = self._users.get(name)
        if user is None:
            user = self._users[name] = _User()
        taken = 0 if user.line else self._lend(user, count)
        self._forget(name, user)
        return taken

    async def take(self, name: str, count: int) -> int:
        """The same, waiting if they are not free. Raises `ApiError` (429)."""
        if taken := self.take_at_once(name, count):
            return taken
        user = self._users.setdefault(name, _User())
        others = self.waiting - len(user.line)
        if len(user.line) >= max((self._limits.waiting - others) // 2, 1):
            raise self._refusal("queue-full")
        return await self._wait(name, user, count)

    def give_back(self, name: str, count: int) -> None:
        """Give back what was taken."""
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
            else:  # it was called in the same moment
                self.give_back(name, waiter.served.result())
            if isinstance(error, TimeoutError):
                raise self._refusal("time-out") from None
            raise

    def _give_up(self, user: _User, waiter: _Waiter) -> None:
        if waiter in user.line:  # unless it was its turn already
            user.line.remove(waiter)
            if not user.line:
                self._turns.remove(user)
            self._call()

    def _call(self) -> None:
        """Serve those who can be, one of each user in turn."""
        passed = 0  # users in a row whose next one has to wait on
        while passed < len(self._turns):
            user = self._turns[0]
            waiter = user.line[0]
            gone = waiter.served.cancelled()
            taken = 0 if gone else self._lend(user, waiter.wanted)
            if not gone and not taken:
                self._turns.rotate(-1)
                passed += 1
                continue
            passed = 0
            user.line.popleft()
            self._turns.popleft()
            if user.line:
                self._turns.append(user)
            if taken:
                waiter.served.set_result(taken)

    def _lend(self, user: _User, count: int) -> int:
        """Lend so many, all or none; returns how many: to who has none a share is enough, however much it is for."""
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
    """How long a watch, one of so many streams, rests between two pieces; one of few does not."""
    return 0.0 if streams < FEW_STREAMS else min(streams * REST_SECONDS, MAX_REST_SECONDS)


class Flow:
    """What is lent to requests, and the numbers about it."""

    def __init__(self, metrics: Registry, limits: Limits) -> None:
        self.seats = Shares(limits.seats, limits, self._refusal)
        self.lists = Shares(max(limits.seats // 2, 1), limits, self._refusal)  # until their clients have read them
        self.room = Shares(limits.room, limits, self._refusal)
        self.readers = Shares(limits.readers, limits, self._refusal)
        self._streams = Shares(limits.streams, limits, self._refusal)
        self._refusals = metrics.counter(
            "apiserver_flowcontrol_rejected_requests_total",
            "Requests that were told to come back later",
            ("flow_schema", "priority_level", "reason"),
        )
        metrics.scraped(self._gauges)

    def open_stream(self, name: str) -> None:
        """Count a stream of this user. Raises `ApiError` (429)."""
        if not self._streams.take_at_once(name, 1):
            raise self._refusal("concurrency-limit")

    @property
    def rest_seconds(self) -> float:
        """How long a watch rests between two pieces: the more streams there are, the more goes out together."""
        return rest_seconds(self._streams.lent)

    def close_stream(self, name: str) -> None:
        """It has ended."""
        self._streams.give_back(name, 1)

    def _refusal(self, reason: str) -> ApiError:
        self._refusals.labels(_LEVEL, _LEVEL, reason).inc()
        return too_many_requests("Too many requests, please try again later.", RETRY_AFTER_SECONDS)

    def _gauges(self) -> Iterator[Gauges]:
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
