"""Decide what the scheduler reconciles next, and when: single gangs, or a task for all of them."""

from collections.abc import Callable
from enum import StrEnum

from muster.controllers.gangs import LOWEST_PRIORITY, Gang
from muster.controllers.scheduler.pending import PendingGangs
from muster.controllers.scheduler.roster import Roster
from muster.runtime.control.queue import WorkQueue

# The seconds for which freed room is gathered for one sweep over the waiting gangs.
SWEEP_SECONDS = 0.02

# The delay before a gang is reconciled, in seconds for each of its pods. A reconcile takes about as long.
GATHER_SECONDS = 0.00002

# Shrinking is decided soon, after all other work. Free room for growth is gathered for longer, because an ending gang
# frees its room pod by pod, and each resize interrupts a running program.
SHRINK_SECONDS = 0.1
GROW_SECONDS = 5.0

# Half-bound gangs come before every pod priority.
_REPAIR_PRIORITY = 2**31


class Look(StrEnum):
    """A queue key for a task that concerns several gangs. Keys of single gangs contain a slash; these do not."""

    SWEEP = "sweep"  # reconcile the first waiting gang of each class
    LATER = "later"  # reconcile the gangs whose victims were protected
    EVICT = "evict"
    SHRINK = "shrink"
    GROW = "grow"


class SchedulerAgenda:
    """The writer of the scheduler's work queue.

    resizes: returns whether the cluster has elastic Jobs.
    """

    def __init__(self, queue: WorkQueue, roster: Roster, pending: PendingGangs, resizes: Callable[[], bool]) -> None:
        self._queue = queue
        self._roster = roster
        self._pending = pending
        self._resizes = resizes

    def queue_changed_gang(self, key: str, gang: Gang) -> None:
        """Queue a gang after a delay that grows with its pods, because many pods may arrive one by one."""
        self._queue.add_after(key, GATHER_SECONDS * (len(gang.unbound) + len(gang.bound)), gang.priority)

    def gang(self, key: str) -> None:
        """Queue a gang by its priority; a waiting gang that lost running pods comes before all others."""
        waiter, gang = self._pending.get(key), self._roster.gangs.get(key)
        if gang is not None:
            broken = waiter is not None and waiter.criteria.broken
            self._queue.add(key, _REPAIR_PRIORITY if broken else gang.priority)

    def gang_after(self, key: str, seconds: float, priority: int = 0) -> None:
        """Queue a gang after a number of seconds."""
        self._queue.add_after(key, seconds, priority)

    def repair(self, key: str) -> None:
        """Queue a half-bound gang before all others."""
        self._queue.add(key, _REPAIR_PRIORITY)

    def sweep(self, seconds: float = SWEEP_SECONDS) -> None:
        """Queue a sweep over the waiting gangs, after room became free or another change that could help."""
        if self._pending or self._resizes():
            self._queue.add_after(Look.SWEEP, seconds)

    def later(self, seconds: float) -> None:
        """Queue another search for victims after a delay, when pods lose their protection or are deleted."""
        self._queue.add_after(Look.LATER, seconds)

    def evict(self) -> None:
        """Queue the eviction of the pods that were chosen as victims of a preemption."""
        self._queue.add(Look.EVICT, _REPAIR_PRIORITY)

    def queue_size_decisions(self) -> None:
        """Queue decisions on which elastic Jobs shrink and grow; do nothing if there are none."""
        if self._resizes():
            self._queue.add_after(Look.SHRINK, SHRINK_SECONDS, LOWEST_PRIORITY)
            self._queue.add_after(Look.GROW, GROW_SECONDS, LOWEST_PRIORITY)
