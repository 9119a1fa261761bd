"""What the scheduler looks at next, and when: gangs by their keys, and now and then all of them together."""

from collections.abc import Callable
from enum import StrEnum

from muster.controllers.gangs import LOWEST_PRIORITY, Gang
from muster.controllers.scheduler.pending import PendingGangs
from muster.controllers.scheduler.roster import Roster
from muster.runtime.queue import WorkQueue

# Room that opens up is looked at in gusts: one sweep over the waiting gangs for all that came in this time.
SWEEP_SECONDS = 0.02

# So long a gang is given for each of its pods before it is looked at, as that costs as much.
GATHER_SECONDS = 0.00002

# Who should shrink is seen soon, after everything else that is to be done. Room to grow is gathered for longer: a
# gang that ends leaves pod by pod, and each change of size costs a running program something.
SHRINK_SECONDS = 0.1
GROW_SECONDS = 5.0

# While things change, what is believed of them is held against them so often.
AUDIT_SECONDS = 60.0

# What is half there goes before every priority that a pod can have.
_REPAIR_PRIORITY = 2**31


class Look(StrEnum):
    """A look at more than one gang. No gang has such a key: theirs have a slash."""

    SWEEP = "sweep"  # at the first gang of each class that waits
    LATER = "later"  # at those that had to leave others alone for a while
    EVICT = "evict"
    AUDIT = "audit"
    SHRINK = "shrink"
    GROW = "grow"


class Agenda:
    """Fills the scheduler's queue. resizes: whether there are jobs whose size may change."""

    def __init__(self, queue: WorkQueue, roster: Roster, pending: PendingGangs, resizes: Callable[[], bool]) -> None:
        self._queue = queue
        self._roster = roster
        self._pending = pending
        self._resizes = resizes
        self._audit_is_due = False

    def changed(self, key: str, gang: Gang) -> None:
        """Look at a gang, but at one whose pods come one by one no oftener than it costs."""
        self._queue.add_after(key, GATHER_SECONDS * (len(gang.unbound) + len(gang.bound)), gang.priority)

    def gang(self, key: str) -> None:
        """Look at a gang at its turn."""
        waiter, gang = self._pending.get(key), self._roster.gangs.get(key)
        if gang is not None:
            broken = waiter is not None and waiter.standing.broken
            self._queue.add(key, _REPAIR_PRIORITY if broken else gang.priority)

    def gang_after(self, key: str, seconds: float, priority: int = 0) -> None:
        """Look at a gang in so many seconds, whatever happens."""
        self._queue.add_after(key, seconds, priority)

    def repair(self, key: str) -> None:
        """Look at a gang that is half there before all others."""
        self._queue.add(key, _REPAIR_PRIORITY)

    def sweep(self, seconds: float = SWEEP_SECONDS) -> None:
        """Something came free, or could help in another way: look at those that wait."""
        if self._pending or self._resizes():
            self._queue.add_after(Look.SWEEP, seconds)

    def later(self, seconds: float) -> None:
        """In so many seconds some may go that had to be left alone."""
        self._queue.add_after(Look.LATER, seconds)

    def evict(self) -> None:
        """Some were chosen to go."""
        self._queue.add(Look.EVICT, _REPAIR_PRIORITY)

    def sizes(self) -> None:
        """Who waits, or what is free, is different: look at who should shrink or grow."""
        if self._resizes():
            self._queue.add_after(Look.SHRINK, SHRINK_SECONDS, LOWEST_PRIORITY)
            self._queue.add_after(Look.GROW, GROW_SECONDS, LOWEST_PRIORITY)

    def audit(self) -> None:
        """Something changed: look in a while whether it was recorded rightly. Where nothing changes nothing is done."""
        if not self._audit_is_due:
            self._audit_is_due = True
            self._queue.add_after(Look.AUDIT, AUDIT_SECONDS, LOWEST_PRIORITY)

    def audited(self) -> None:
        """What changes from now on is for the next audit."""
        self._audit_is_due = False
