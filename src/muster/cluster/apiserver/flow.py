"""How much may be under way at once: requests wait for seats, users take turns, and who asks for too much gets 429.

In the spirit of upstream's API priority and fairness, with one level and a flow for each user. A request takes a seat
while it is worked on, a big one several; no user can take all seats, so somebody else always finds one. When there is
none, a request waits in its user's line, and free seats go to the lines in turn. Streams take no seats, they are
counted. The engine in this process asks without a wire and is not limited.

Invariant: whoever waits could not be seated when it came, nor at any change since.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.api.status import ApiError, too_many_requests
from muster.runtime.metrics import Gauges, Registry

BYTES_PER_SEAT = 64 * 1024  # of a request's body
OBJECTS_PER_SEAT = 100  # of a list, as upstream
LIST_SEATS = 8  # for a list without a limit, and at most
RETRY_AFTER_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be under way.

    seats: of all users together.
    seats_of_one: of one user.
    waiting_of_one: requests of one user that wait for seats.
    wait_seconds: how long one may wait.
    streams_of_one: watches, logs and the like that one user has open.
    """

    seats: int = 256
    seats_of_one: int = 192
    waiting_of_one: int = 1024
    wait_seconds: float = 15.0
    streams_of_one: int = 2048


def seats_for(method: str, path: str, limit: str, body_bytes: int) -> int:
    """The seats that a request takes: 0 if it is about no resource; `limit` is a list's, as in its query."""
    if not path.startswith(("/api/", "/apis/")):
        return 0
    if method in ("GET", "DELETE") and _is_collection(path):
        known = limit.isascii() and limit.isdigit() and len(limit) < 10
        return min(1 + (int(limit) - 1) // OBJECTS_PER_SEAT, LIST_SEATS) if known and int(limit) else LIST_SEATS
    return 1 + body_bytes // BYTES_PER_SEAT


def _is_collection(path: str) -> bool:
    """Whether the path ends with a plural, by its depth: a guess that costs next to nothing."""
    depth = path.count("/") - path.startswith("/apis/")  # /api/v1/pods, /api/v1/namespaces/default/pods
    return depth == 3 or (depth == 5 and "/namespaces/" in path)


class _Waiter(NamedTuple):
    seats: int
    seated: asyncio.Future[None]


@dataclass(slots=True)
class _User:
    """What one user has under way."""

    seats: int = 0
    streams: int = 0
    line: deque[_Waiter] = field(default_factory=deque)

    @property
    def is_idle(self) -> bool:
        return not (self.seats or self.streams or self.line)


class Flow:
    """Seats and lines."""

    def __init__(self, metrics: Registry, limits: Limits) -> None:
        self._limits = limits
        self._seats = 0  # that are taken
        self._users: dict[str, _User] = {}
        self._turns: deque[_User] = deque()  # those who have somebody in line, next one first
        self._refusals = metrics.counter(
            "apiserver_flowcontrol_rejected_requests_total",
            "Requests that were told to come back later",
            ("flow_schema", "priority_level", "reason"),
        )
        metrics.scraped(self._gauges)

    def enter_at_once(self, name: str, seats: int) -> int:
        """Take seats for a request of this user if there are any; returns how many to give back, 0 for none."""
        seats = min(seats, self._limits.seats_of_one)
        user = self._users.get(name)
        if user is None:
            user = self._users[name] = _User()
        if self._turns or not self._fits(user, seats):
            self._forget(name, user)
            return 0
        self._seat(user, seats)
        return seats

    async def enter(self, name: str, seats: int) -> int:
        """The same, waiting if there are none. Raises `ApiError` (429)."""
        if taken := self.enter_at_once(name, seats):
            return taken
        seats = min(seats, self._limits.seats_of_one)
        user = self._users.setdefault(name, _User())
        if len(user.line) >= self._limits.waiting_of_one:
            raise self._refusal("queue-full")
        await self._wait(name, user, seats)
        return seats

    def leave(self, name: str, seats: int) -> None:
        """Give seats back."""
        user = self._users[name]
        user.seats -= seats
        self._seats -= seats
        self._call()
        self._forget(name, user)

    def open_stream(self, name: str) -> None:
        """Count a stream of this user. Raises `ApiError` (429)."""
        user = self._users.setdefault(name, _User())
        if user.streams >= self._limits.streams_of_one:
            raise self._refusal("concurrency-limit")
        user.streams += 1

    def close_stream(self, name: str) -> None:
        """It has ended."""
        user = self._users[name]
        user.streams -= 1
        self._forget(name, user)

    async def _wait(self, name: str, user: _User, seats: int) -> None:
        waiter = _Waiter(seats, asyncio.get_running_loop().create_future())
        if not user.line:
            self._turns.append(user)
        user.line.append(waiter)
        self._call()  # its own user may have room while others are waiting for theirs
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                await waiter.seated
        except BaseException as error:
            if waiter.seated.cancelled():
                self._give_up(user, waiter)
                self._forget(name, user)
            else:  # it was called in the same moment
                self.leave(name, seats)
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
        """Seat those who can be, one of each user in turn; a user whose next one finds no room keeps the turn."""
        full = 0  # users in a row who have as many seats as one may have
        while full < len(self._turns):
            user = self._turns[0]
            waiter = user.line[0]
            gone = waiter.seated.cancelled()
            if not gone and user.seats + waiter.seats > self._limits.seats_of_one:
                self._turns.rotate(-1)
                full += 1
                continue
            if not gone and self._seats + waiter.seats > self._limits.seats:
                return
            full = 0
            user.line.popleft()
            self._turns.popleft()
            if user.line:
                self._turns.append(user)
            if not gone:
                self._seat(user, waiter.seats)
                waiter.seated.set_result(None)

    def _fits(self, user: _User, seats: int) -> bool:
        return user.seats + seats <= self._limits.seats_of_one and self._seats + seats <= self._limits.seats

    def _seat(self, user: _User, seats: int) -> None:
        user.seats += seats
        self._seats += seats

    def _forget(self, name: str, user: _User) -> None:
        if user.is_idle and self._users.get(name) is user:
            del self._users[name]

    def _refusal(self, reason: str) -> ApiError:
        self._refusals.labels(_LEVEL, _LEVEL, reason).inc()
        return too_many_requests("Too many requests, please try again later.", RETRY_AFTER_SECONDS)

    def _gauges(self) -> Iterator[Gauges]:
        labels = ("flow_schema", "priority_level")
        level = (_LEVEL, _LEVEL)
        waiting = sum(len(user.line) for user in self._turns)
        streams = sum(user.streams for user in self._users.values())
        for name, text, value in (
            ("current_executing_seats", "Seats that are taken", self._seats),
            ("current_inqueue_requests", "Requests that wait for a seat", waiting),
        ):
            yield Gauges(f"apiserver_flowcontrol_{name}", text, labels, [(level, value)])
        yield Gauges("apiserver_longrunning_requests", "Streams that are open", (), [((), streams)])


_LEVEL = "global-default"
