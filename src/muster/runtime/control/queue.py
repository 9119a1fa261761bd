"""Queue keys between events and workers: each key that needs a reconcile, once.

Invariants

- A key is handed to one worker at a time. If it is added again meanwhile, it is queued again after `done`.
- A key is queued at most once. Adding it again may only raise its priority or bring its time forward.
- Higher priorities come first. Among equal priorities the namespaces take turns, and within a namespace keys come in
  the order in which they became ready. So a namespace with many keys delays only its own keys.
- An earlier `add` ends a key's delay. The worker that reconciles the key sets the next delay.

A queue belongs to one event loop, and does not know the meaning of keys. It contains no durable state: keys that are
lost at shutdown come back with the next list.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from muster.runtime.clock import Clock
from muster.runtime.control.backoff import Backoff
from muster.runtime.control.lanes import Lane, Lanes
from muster.runtime.ids import Random

# client-go starts at 5 ms; at most a minute, so that a repaired server is noticed soon.
RETRY = Backoff(first=0.005, limit=60.0)
# The maximum number of outdated entries in a heap or lanes beyond the number of their keys.
_STALE_LIMIT = 64


class QueueObserver(Protocol):
    """A receiver of a queue's events, for metrics."""

    def added(self) -> None:
        """Count a key that was added, or added again."""
        ...

    def retried(self) -> None:
        """Count a key that was added because its reconcile failed."""
        ...

    def started(self, waited_seconds: float) -> None:
        """Count a key that a worker took. waited_seconds: how long the key had been ready."""
        ...

    def finished(self, worked_seconds: float) -> None:
        """Count a key that a worker has finished. worked_seconds: how long the worker had the key."""
        ...


class _Waiting(Struct):
    """A key that waits in the queue.

    ready_at: when it becomes ready, by the monotonic clock.
    order: the position in the order in which keys became ready.
    ready: whether it is ready; then it has been since `ready_at`.
    """

    priority: int
    ready_at: float
    order: int = 0  # in which it became ready
    ready: bool = False


def namespace_of(key: str) -> Lane:
    """Return the lane of a key: its namespace; "" for a key without one."""
    return (key.partition("/")[0] if "/" in key else "",)


class WorkQueue:
    """A queue of keys that need work.

    lane: returns the lane of a key. Lanes take turns.
    """

    def __init__(
        self,
        clock: Clock,
        random: Random,
        *,
        name: str = "",
        retry: Backoff = RETRY,
        observer: QueueObserver | None = None,
        lane: Callable[[str], Lane] = namespace_of,
    ) -> None:
        self.name = name
        self._lane = lane
        self._clock = clock
        self._random = random
        self._retry = retry
        self._observer = observer
        self._waiting: dict[str, _Waiting] = {}
        self._again: dict[str, _Waiting] = {}  # added while a worker has the key; they wait once it is done
        self._working: dict[str, float] = {}  # the time at which a worker took each key
        self._failures: dict[str, int] = {}
        # Lanes and heap may hold entries that no longer agree with `_waiting`; they are skipped when popped.
        self._ready: dict[int, Lanes[tuple[int, str]]] = {}  # (order, key), by priority
        self._ready_entries = 0
        self._priorities: list[int] = []  # negative, a heap of the keys of `_ready`
        self._delayed: list[tuple[float, int, str]] = []  # (ready_at, order, key)
        self._ready_count = 0
        self._orders = 0
        self._timer: asyncio.TimerHandle | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._shut_down = False

    def __len__(self) -> int:
        """Return how many keys are ready and wait for a worker."""
        return self._ready_count

    @property
    def delayed(self) -> int:
        """How many keys wait for their time."""
        return len(self._waiting) - self._ready_count

    @property
    def working(self) -> dict[str, float]:
        """The keys that workers have, and for how many seconds they have had each key."""
        now = self._clock.monotonic()
        return {key: now - since for key, since in self._working.items()}

    def add(self, key: str, priority: int = 0) -> None:
        """Queue the key for work now."""
        self._add(key, self._clock.monotonic(), priority)

    def add_after(self, key: str, seconds: float, priority: int = 0) -> None:
        """Queue the key for work after this many seconds.

        If it is queued for an earlier time, that time stays.
        """
        self._add(key, self._clock.monotonic() + max(seconds, 0.0), priority)

    def add_rate_limited(self, key: str, *, at_least: float = 0.0) -> float:
        """Queue a failed key after a delay that doubles with every failure; return the delay."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = max(self._retry.delay(failures, self._random), at_least)
        if self._observer and not self._shut_down:
            self._observer.retried()
        self.add_after(key, delay)
        return delay

    def forget(self, key: str) -> None:
        """Reset the count of a key's failures, because its reconcile succeeded."""
        self._failures.pop(key, None)

    def failures(self, key: str) -> int:
        """Return how often the key has failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> str | None:
        """Wait for the next key and return it; None after the queue is shut down.

        No other caller gets this key until `done`.
        """
        while not self._shut_down:
            key = self._pop()
            if key is not None:
                return key
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()  # the wake-up was for a key: pass it to another worker
                elif getter in self._getters:  # `_wake` removes a getter that is already cancelled
                    self._getters.remove(getter)
                raise
        return None

    def done(self, key: str) -> None:
        """Release the key, because the worker has finished with it; queue it again if it was added meanwhile."""
        since = self._working.pop(key)
        if self._observer:
            self._observer.finished(self._clock.monotonic() - since)
        again = self._again.pop(key, None)
        if again is not None and not self._shut_down:
            self._wait(key, again)
        if not self._working:
            idle, self._idle = self._idle, []
            for future in idle:
                if not future.done():
                    future.set_result(None)

    def shut_down(self) -> None:
        """Hand out no more keys, and accept none. A worker that has a key may finish it."""
        self._shut_down = True
        self._waiting.clear()
        self._again.clear()
        self._ready.clear()
        self._priorities.clear()
        self._delayed.clear()
        self._ready_count = self._ready_entries = 0
        if self._timer:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake()

    async def drain(self) -> None:
        """Wait until no worker has a key. Call it after `shut_down`."""
        if self._working:
            future = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            await future

    def _add(self, key: str, ready_at: float, priority: int) -> None:
        if self._shut_down:
            return
        if self._observer:
            self._observer.added()
        waiting = self._again if key in self._working else self._waiting
        known = waiting.get(key)
        if known is not None:
            if known.priority >= priority and known.ready_at <= ready_at:
                return
            ready_at = min(known.ready_at, ready_at)
            priority = max(known.priority, priority)
            if known.ready:
                self._ready_count -= 1
        new = _Waiting(priority, ready_at)
        if waiting is self._again:
            self._again[key] = new
        else:
            self._wait(key, new)

    def _wait(self, key: str, entry: _Waiting) -> None:
        self._waiting[key] = entry
        if entry.ready_at <= self._clock.monotonic():
            self._make_ready(key, entry)
            return
        self._orders += 1
        entry.order = self._orders
        heapq.heappush(self._delayed, (entry.ready_at, entry.order, key))
        if len(self._delayed) > 2 * self.delayed + _STALE_LIMIT:
            self._delayed = [item for item in self._delayed if self._find_waiting(item[2], item[1])]
            heapq.heapify(self._delayed)
        if self._delayed[0][1] == entry.order:
            self._set_timer()

    def _make_ready(self, key: str, entry: _Waiting) -> None:
        self._orders += 1
        entry.order = self._orders
        entry.ready = True
        self._ready_count += 1
        lanes = self._ready.get(entry.priority)
        if lanes is None:
            lanes = self._ready[entry.priority] = Lanes()
            heapq.heappush(self._priorities, -entry.priority)
        lanes.add(self._lane(key), (entry.order, key))
        self._ready_entries += 1
        if self._ready_entries > 2 * self._ready_count + _STALE_LIMIT:
            self._forget_stale()
        self._wake()

    def _forget_stale(self) -> None:
        """Drop outdated entries, whose keys were added again with a higher priority or earlier time."""
        for lanes in self._ready.values():
            lanes.keep(self._is_current)
        self._ready = {priority: lanes for priority, lanes in self._ready.items() if lanes}
        self._priorities = [-priority for priority in self._ready]
        heapq.heapify(self._priorities)
        self._ready_entries = self._ready_count

    def _pop(self) -> str | None:
        while self._priorities:
            lanes = self._ready[-self._priorities[0]]
            entries = len(lanes)
            item = lanes.pop(self._is_current)
            self._ready_entries += len(lanes) - entries
            if item is not None:
                return self._take(item[1])
            del self._ready[-heapq.heappop(self._priorities)]
        return None

    def _take(self, key: str) -> str:
        entry = self._waiting.pop(key)
        self._ready_count -= 1
        now = self._clock.monotonic()
        self._working[key] = now
        if self._observer:
            self._observer.started(now - entry.ready_at)
        return key

    def _is_current(self, item: tuple[int, str]) -> bool:
        entry = self._waiting.get(item[1])
        return entry is not None and entry.order == item[0]

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _set_timer(self) -> None:
        """Set the timer for the first delayed key."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._delayed:
            delay = max(self._delayed[0][0] - self._clock.monotonic(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self._release)

    def _release(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._delayed:
            ready_at, order, key = self._delayed[0]
            entry = self._find_waiting(key, order)
            if entry and ready_at > now:
                break
            heapq.heappop(self._delayed)
            if entry:
                self._make_ready(key, entry)
        self._set_timer()

    def _find_waiting(self, key: str, order: int) -> _Waiting | None:
        """Return the waiting key of a heap entry; None if the entry is outdated."""
        entry = self._waiting.get(key)
        return entry if entry and entry.order == order else None
