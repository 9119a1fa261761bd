"""Keep what will happen in a simulation, in the order in which it happens."""

import heapq
from collections.abc import Callable
from enum import IntEnum
from itertools import count
from math import inf

Event = Callable[[], None]


class Rank(IntEnum):
    """The order of events of one moment: what ends makes room, and changes happen, before anything new asks."""

    END = 0
    CHANGE = 1
    ARRIVAL = 2


class EventAgenda:
    """The events that are to come. Times are seconds from the start.

    Events of one time and rank happen in the order in which they were planned.
    """

    def __init__(self) -> None:
        self._events: list[tuple[float, Rank, int, Event]] = []
        self._serial = count()

    def __bool__(self) -> bool:
        return bool(self._events)

    @property
    def next_at(self) -> float:
        """The time of the next event; infinite if there is none."""
        return self._events[0][0] if self._events else inf

    def plan(self, at: float, rank: Rank, event: Event) -> None:
        """Let an event happen at a time."""
        heapq.heappush(self._events, (at, rank, next(self._serial), event))

    def take_due(self, now: float) -> Event | None:
        """Take the next event that happens until now; None if there is none."""
        return heapq.heappop(self._events)[3] if self.next_at <= now else None
