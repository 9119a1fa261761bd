"""Keep the recent changes of one resource, and the watches on them.

A watch is a position in the sequence of changes. A watch that is far behind wakes once, and then reads all changes
since its position. Until the watches read it, a change costs the same with one watch or two hundred.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter

from muster.cluster.store.errors import Closed, Compacted
from muster.cluster.store.packing import Packing
from muster.cluster.store.pastbytes import count_past_bytes
from muster.cluster.store.values import Change

# The number of newest changes that keep their encoded line, and whose objects keep their bodies whole. Watches that are
# further behind encode again.
LINES = 1_000

_revision = attrgetter("entry.revision")


class Changes:
    """A bounded sequence of changes, which drops the oldest first.

    Positions count all changes ever appended, so they stay valid while old changes are dropped.
    """

    def __init__(self, oldest: int, limit: int, limit_bytes: int, packing: Packing | None = None) -> None:
        self.oldest = oldest  # all changes of the resource after this revision are kept
        self.closed = False
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._packing = packing if packing is not None else Packing()
        self._retained: list[Change] = []
        self._dropped = 0  # position of the first kept change
        self._woken_up_to = 0  # waiting watches were woken for all changes before this position
        self._waiting: dict[str, set[asyncio.Future[int]]] = {}  # by namespace; "" waits for any

    @property
    def end(self) -> int:
        """The position after the newest change."""
        return self._dropped + len(self._retained)

    def append(self, change: Change) -> None:
        """Add the newest change, without waking the watches."""
        self._retained.append(change)
        self._bytes += count_past_bytes(change)
        if len(self._retained) > LINES:
            old = self._retained[-LINES - 1]
            old.forget_line()
            old.entry.pack(self._packing)

    def wake(self) -> None:
        """Wake the waiting watches because of the changes since the last call, then drop changes over the limits."""
        if self._waiting and self._woken_up_to < self.end:
            first = {"": self._woken_up_to}
            for position, change in enumerate(self.since(self._woken_up_to, 0), self._woken_up_to):
                first.setdefault(change.entry.key.namespace, position)
            for namespace, position in first.items():
                self._resolve(self._waiting.pop(namespace, set()), position)
        self._woken_up_to = self.end
        self._trim()

    def wait(self, namespace: str) -> asyncio.Future[int]:
        """Return a future for the position of the next change in this namespace. "" means any namespace."""
        waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, set()).add(waiter)
        return waiter

    def stop_waiting(self, namespace: str, waiter: asyncio.Future[int]) -> bool:
        """Resolve a future of `wait` without a change; return False if a change has resolved it already."""
        waiters = self._waiting.get(namespace, set())
        was_waiting = waiter in waiters
        waiters.discard(waiter)
        if not waiters:
            self._waiting.pop(namespace, None)
        self._resolve({waiter}, self.end)
        return was_waiting

    def close(self) -> None:
        """Resolve every waiting future; no more changes will come."""
        self.closed = True
        for waiters in self._waiting.values():
            self._resolve(waiters, self.end)
        self._waiting.clear()

    @staticmethod
    def _resolve(waiters: set[asyncio.Future[int]], position: int) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(position)

    def position_after(self, revision: int) -> int:
        """Return the position of the first change after this revision. Raises `Compacted`."""
        if revision < self.oldest:
            raise Compacted(revision, self.oldest)
        return self._dropped + bisect_right(self._retained, revision, key=_revision)

    def since(self, position: int, revision: int, at_most: int | None = None) -> list[Change]:
        """Return at most `at_most` changes, from a position on; None means no limit.

        revision: the revision before the position.

        Raises `Compacted` if changes at the position are no longer kept.
        """
        if position < self._dropped:
            raise Compacted(revision, self.oldest)
        first = position - self._dropped
        return self._retained[first : None if at_most is None else first + at_most]

    def forget(self, revision: int) -> None:
        """Drop the changes up to this revision.

        Watches from an earlier revision stay possible if nothing was dropped since: some clients watch from the
        revision of the last object that they saw, which is old for a resource with few changes.
        """
        self._drop(bisect_right(self._retained, revision, key=_revision))

    def _trim(self) -> None:
        # Drop a quarter in one step, because dropping from the front of a list moves all the rest.
        if len(self._retained) <= self._limit * 5 // 4 and self._bytes <= self._limit_bytes * 5 // 4:
            return
        count = max(len(self._retained) - self._limit, 0)
        excess = self._bytes - self._limit_bytes - self._count_bytes(count)
        while excess > 0:
            excess -= count_past_bytes(self._retained[count])
            count += 1
        self._drop(count)

    def _drop(self, count: int) -> None:
        if count:
            self.oldest = self._retained[count - 1].revision
            self._bytes -= self._count_bytes(count)
            self._dropped += count
            del self._retained[:count]

    def _count_bytes(self, count: int) -> int:
        return sum(map(count_past_bytes, self._retained[:count]))


class Watch:
    """A reader of the committed changes of a resource after a revision. Only one task may read at a time."""

    def __init__(self, changes: Changes, since: int, namespace: str, newest: Callable[[], int]) -> None:
        self._changes = changes
        self._since = since
        self._namespace = namespace
        self._newest = newest
        self._position = changes.position_after(since)
        self._last_revision = since
        self._waiter: asyncio.Future[int] | None = None  # kept when `next` is cancelled, so that no change is missed
        self._nudged = False
        self._closed = False

    @property
    def revision(self) -> int:
        """The revision up to which all changes were returned. A bookmark may carry it."""
        if self._waiter is not None and not self._waiter.done():
            return max(self._last_revision, self._newest())
        return self._last_revision

    async def next(self, at_most: int | None = None) -> list[Change]:
        """Return all committed changes since the last call; wait until there is at least one.

        After each `nudge` the result is an empty list once.

        at_most: the maximum number of changes. With it a slow reader holds few changes, and the watch keeps no copy of
        the others.

        Raises `Compacted` if some changes are no longer kept, `Closed` after `close` or after the store was closed. The
        caller may cancel the wait.
        """
        while True:
            if self._waiter is not None:
                # Changes in other namespaces meanwhile do not count as missed, even if they are no longer kept.
                self._position = await self._wait(self._waiter)
                self._waiter = None
            if self._closed or self._changes.closed:
                raise Closed("the watch was closed")
            if self._nudged:
                self._nudged = False
                return []
            if changes := self.take(at_most):
                return changes
            if self._position == self._changes.end:
                self._waiter = self._changes.wait(self._namespace)

    async def _wait(self, waiter: asyncio.Future[int]) -> int:
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():  # the next call continues to wait, or starts where this one did
                was_waiting = self._changes.stop_waiting(self._namespace, waiter)
                self._waiter = self._changes.wait(self._namespace) if was_waiting else None
            raise

    def nudge(self) -> None:
        """Let the current or the next call of `next` return an empty list."""
        self._nudged = True
        if self._waiter is not None and not self._waiter.done():
            self._last_revision = max(self._last_revision, self._newest())
            self._changes.stop_waiting(self._namespace, self._waiter)

    def take(self, at_most: int | None = None) -> list[Change]:
        """Return all committed changes since the last call, without waiting. Raises `Compacted`."""
        changes = self._changes.since(self._position, self._last_revision, at_most)
        self._position += len(changes)
        is_all = self._position == self._changes.end
        self._last_revision = max(self._last_revision, self._newest() if is_all else changes[-1].revision)
        if changes and changes[0].revision <= self._since:  # the watch begins at a future revision
            changes = [change for change in changes if change.revision > self._since]
        if self._namespace:
            changes = [change for change in changes if change.entry.key.namespace == self._namespace]
        return changes

    def close(self) -> None:
        """Stop following changes. A waiting `next` raises `Closed`."""
        self._closed = True
        if self._waiter is not None:
            self._changes.stop_waiting(self._namespace, self._waiter)
