"""The queue between events and workers: what keys need a look, each once.

Invariants
- A key is handed to one worker at a time. Added again meanwhile, it comes back after `done`.
- A key waits at most once: adding it again may only raise its priority or bring its time forward.
- Higher priorities first; equal ones in the order in which they became ready.
- A key's delay ends with an earlier `add`: the worker that reconciles the key says anew when to look again.

It belongs to one event loop, knows nothing of what keys mean, and keeps nothing that matters: what is lost at
shutdown is found again by the next list.
"""

import asyncio
import heapq
from collections import deque
from typing import Protocol

from msgspec import Struct

from muster.runtime.backoff import Backoff
from muster.runtime.clock import Clock
from muster.runtime.ids import Random

# client-go starts at 5 ms; a minute at most, so that a repaired server is noticed soon.
RETRY = Backoff(first=0.005, limit=60.0)
# So many out-of-date entries may lie in a heap, besides as many as there are keys in it.
_STALE_LIMIT = 64


class QueueObserver(Protocol):
    """What metrics want to hear; `muster.runtime.metrics` has one."""

    def added(self) -> None:
        """A key was added, or added again."""
        ...

    def retried(self) -> None:
        """A key was added because its reconcile failed."""
        ...

    def started(self, waited_seconds: float) -> None:
        """A worker took a key that had been ready for so long."""
        ...

    def finished(self, worked_seconds: float) -> None:
        """A worker is done with a key."""
        ...


class _Waiting(Struct):
    """A key that no worker has, ready at `ready_at` (or since then, if `ready`)."""

    priority: int
    ready_at: float
    order: int = 0  # of becoming ready
    ready: bool = False


class WorkQueue:
    """Keys that need work."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        *,
        name: str = "",
        retry: Backoff = RETRY,
        observer: QueueObserver | None = None,
    ) -> None:
        self.name = name
        self._clock = clock
        self._random = random
        self._retry = retry
        self._observer = observer
        self._waiting: dict[str, _Waiting] = {}
        self._again: dict[str, _Waiting] = {}  # to wait again once the worker that has the key is done
        self._working: dict[str, float] = {}  # since when
        self._failures: dict[str, int] = {}
        # Heaps may hold entries that no longer say what `_waiting` says; those are skipped when met.
        self._ready: list[tuple[int, int, str]] = []  # (-priority, order, key)
        self._delayed: list[tuple[float, int, str]] = []  # (ready_at, order, key)
        self._ready_count = 0
        self._orders = 0
        self._timer: asyncio.TimerHandle | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._shut_down = False

    def __len__(self) -> int:
        """How many keys are ready and wait for a worker."""
        return self._ready_count

    @property
    def delayed(self) -> int:
        """How many keys wait for their time."""
        return len(self._waiting) - self._ready_count

    @property
    def working(self) -> dict[str, float]:
        """The keys that workers have, and for how many seconds they have had them."""
        now = self._clock.monotonic()
        return {key: now - since for key, since in self._working.items()}

    def add(self, key: str, priority: int = 0) -> None:
        """The key needs a look now."""
        self._add(key, self._clock.monotonic(), priority)

    def add_after(self, key: str, seconds: float, priority: int = 0) -> None:
        """The key needs a look in so many seconds, or earlier if it is added earlier."""
        self._add(key, self._clock.monotonic() + max(seconds, 0.0), priority)

    def add_rate_limited(self, key: str, priority: int = 0, *, at_least: float = 0.0) -> float:
        """The key's reconcile failed: look again after a delay that doubles with every failure. Returns it."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = max(self._retry.delay(failures, self._random), at_least)
        if self._observer and not self._shut_down:
            self._observer.retried()
        self.add_after(key, delay, priority)
        return delay

    def forget(self, key: str) -> None:
        """The key's reconcile went well: its next failure counts as the first."""
        self._failures.pop(key, None)

    def failures(self, key: str) -> int:
        """How often the key failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> str | None:
        """The next key, which is the caller's until `done`; None once the queue is shut down."""
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
                    self._wake()  # the call was meant for a key: another worker must hear it
                elif getter in self._getters:  # unless it was passed over, as one that hears nothing any more
                    self._getters.remove(getter)
                raise
        return None

    def done(self, key: str) -> None:
        """The worker has finished with the key."""
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
        """Hand out no more keys and take none in; a worker that has one finishes it."""
        self._shut_down = True
        self._waiting.clear()
        self._again.clear()
        self._ready.clear()
        self._delayed.clear()
        self._ready_count = 0
        if self._timer:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake()

    async def drained(self) -> None:
        """Wait until no worker has a key. Meant to be awaited after `shut_down`."""
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
            self._delayed = [item for item in self._delayed if self._waiting_as(item[2], item[1])]
            heapq.heapify(self._delayed)
        if self._delayed[0][1] == entry.order:
            self._set_timer()

    def _make_ready(self, key: str, entry: _Waiting) -> None:
        self._orders += 1
        entry.order = self._orders
        entry.ready = True
        self._ready_count += 1
        heapq.heappush(self._ready, (-entry.priority, entry.order, key))
        if len(self._ready) > 2 * self._ready_count + _STALE_LIMIT:
            self._ready = [item for item in self._ready if self._waiting_as(item[2], item[1])]
            heapq.heapify(self._ready)
        self._wake()

    def _pop(self) -> str | None:
        while self._ready:
            _, order, key = heapq.heappop(self._ready)
            entry = self._waiting_as(key, order)
            if entry is None:
                continue
            del self._waiting[key]
            self._ready_count -= 1
            now = self._clock.monotonic()
            self._working[key] = now
            if self._observer:
                self._observer.started(now - entry.ready_at)
            return key
        return None

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _set_timer(self) -> None:
        """One timer, for the first delayed key."""
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
            entry = self._waiting_as(key, order)
            if entry and ready_at > now:
                break
            heapq.heappop(self._delayed)
            if entry:
                self._make_ready(key, entry)
        self._set_timer()

    def _waiting_as(self, key: str, order: int) -> _Waiting | None:
        """What a heap's entry stands for, unless it is out of date."""
        entry = self._waiting.get(key)
        return entry if entry and entry.order == order else None
