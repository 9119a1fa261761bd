"""Order the future events of a simulation by time, and at the same time by kind."""

import heapq
from collections.abc import Callable
from enum import IntEnum
from itertools import count
from math import inf

Event = Callable[[], None]


class Rank(IntEnum):
    """The order of events at the same time: ends first, because they free room, then changes, then arrivals of jobs."""

    END = 0
    CHANGE = 1
    ARRIVAL = 2


class EventAgenda:
    """The future events of a simulation. Times are seconds from the start.

    Events with the same time and rank are executed in the order in which they were planned.
    """

    def __init__(self) -> None:
        self._events: list[tuple[float, Rank, int, Event]] = []
        self._serial = count()

    def __bool__(self) -> bool:
        return bool(self._events)

    @property
    def next_at(self) -> float:
        """The time of the next event; infinity if there is none."""
        return self._events[0][0] if self._events else inf

    def plan(self, at: float, rank: Rank, event: Event) -> None:
        """Plan an event for a time, in seconds from the start."""
        heapq.heappush(self._events, (at, rank, next(self._serial), event))

    def take_due(self, now: float) -> Event | None:
        """Remove and return the next event that is due at `now`; None if none is due."""
        return heapq.heappop(self._events)[3] if self.next_at <= now else None
