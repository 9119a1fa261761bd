"""Who waits for quota, ClusterQueue by ClusterQueue, and when a workload is worth another look.

A workload that waits is either to be tried, or it was tried and does not fit (inadmissible, whole classes at a time),
or something is in its way whatever is free: it is held back after an eviction, its LocalQueue is stopped, its namespace
is not selected. It is tried again only once something happened that could help; what that is:

- a flush of its tree (`flush`), for those who might take some of what was freed;
- its own change, the end of what held it back (`advance`), a namespace or a LocalQueue that changes.

The requeue rules are Kueue's, but for two things that only a queue with a lock and a pause needs: nothing is in flight
here, so no event can be missed between a decision and its outcome, and no flush waits for a second. What is kept is
a function of who waits, so it can be rebuilt by adding everybody anew; all that is lost is who need not be tried.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from heapq import heappop, heappush
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from muster.queueing.model import PODS, FlavorResource, QueueSpec, Usage, WorkloadInfo
from muster.queueing.moments import NEVER
from muster.queueing.pending.ordering import place
from muster.queueing.pending.queue import EquivalenceClass, Parked, PendingQueue, PendingReason, Waiter
from muster.queueing.quota.tree import Node

# Held back until it is added again without.
HELD_BACK: Final = PendingReason("PendingEvaluation", "The workload waits before it is queued again")
_NOT_SELECTED: Final = PendingReason("Misconfigured", "workload namespace doesn't match ClusterQueue selector")


class Position(Struct, frozen=True):
    """Of a workload that waits, both from 0."""

    workload: WorkloadInfo
    in_queue: int
    in_local: int


# A workload got this.
Charge = Callable[[WorkloadInfo, Usage], None]


class Queues:
    """The pending queues of all ClusterQueues. Names of LocalQueues and keys of workloads are `namespace/name`."""

    def __init__(self) -> None:
        self._charges: list[Charge] = []
        self._pending: dict[str, PendingQueue] = {}
        self._waiters: dict[str, Waiter] = {}
        self._usage: dict[str, float] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._stopped: set[str] = set()  # LocalQueues
        self._wakes: list[tuple[datetime, str]] = []  # an entry is void if the waiter has another time
        self._untried: dict[str, None] = {}
        self._parked: dict[str, Parked] = {}  # by ClusterQueue; those who claim something or wait for pods
        self._claims: dict[str, Usage] = {}  # as of the last `take_lifted`
        self._reparked: set[str] = set()  # since then
        self._freed: dict[Node, set[FlavorResource] | None] = {}  # flushes that were asked for
        self._places_freed = False

    # What the shell tells.

    def set_queue(self, spec: QueueSpec, *, active: bool = True) -> None:
        """Add or change a ClusterQueue. Whom that could help in its tree is for `flush` to wake.

        active: whether it can admit at all (its flavors and checks exist); a stopped one cannot either.
        """
        pending = self._pending_queue(spec.name)
        same = pending.spec is not None and replace(pending.spec, stop=spec.stop) == spec
        pending.spec, pending.closed = spec, None
        if spec.stop != "None" or not active:
            pending.closed = PendingReason("Suspended", f"ClusterQueue {spec.name} is inactive")
        if not same:
            selected: dict[str, bool] = {}
            for waiter in pending.waiters.values():
                namespace = waiter.workload.namespace
                if namespace not in selected:
                    selected[namespace] = self._selects(pending, namespace)
                waiter.obstacle = self._obstacle(waiter.workload, selected=selected[namespace])
            pending.refresh()
        self._changed(pending)

    def remove_queue(self, name: str) -> None:
        """Its workloads wait for another one of that name."""
        pending = self._pending_queue(name)
        pending.spec = None
        pending.closed = PendingReason("Misconfigured", f"ClusterQueue {name} doesn't exist")
        pending.refresh()
        self._changed(pending)
        self._drop_if_unused(pending)

    def stop_local(self, local_queue: str, *, stopped: bool = True) -> None:
        """A LocalQueue is stopped, or no longer, as is one that is gone."""
        if stopped == (local_queue in self._stopped):
            return
        (self._stopped.add if stopped else self._stopped.discard)(local_queue)
        for pending in self._pending.values():
            if local_queue in pending.local:
                (pending.stop if stopped else pending.resume)(local_queue)
                self._review(pending, [self._waiters[place[-1]] for place in pending.local[local_queue]])

    def set_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """A namespace has these labels now; none if it is gone."""
        before = self._labels.pop(name, {})
        if labels:
            self._labels[name] = labels
        if before == labels:
            return
        for pending in self._pending.values():
            matcher = pending.spec.namespaces if pending.spec is not None else None
            if matcher is not None and matcher.matches(before) != matcher.matches(labels):
                self._review(pending, [one for one in pending.waiters.values() if one.workload.namespace == name])

    def set_usage(self, local_queue: str, usage: float) -> None:
        """The past usage of a LocalQueue, for ClusterQueues that go by it; infinite if its weight is 0."""
        if self._usage.get(local_queue, 0.0) == usage:
            return
        if usage:
            self._usage[local_queue] = usage
        else:
            del self._usage[local_queue]
        for pending in self._pending.values():
            if pending.by_usage and local_queue in pending.local:
                pending.weigh(local_queue)
                self._changed(pending)

    def add(self, workload: WorkloadInfo, *, until: datetime | None = None) -> None:
        """A workload waits, or is another than it was.

        until: it is held back after an eviction (`requeueAt`); `NEVER` until it is added again.
        """
        old = self._waiters.get(workload.key)
        if old is not None and self._same(old, workload, until):
            old.workload = workload
            return
        if old is not None:
            self.remove(workload.key)
        pending = self._pending_queue(workload.queue)
        obstacle = self._obstacle(workload, selected=self._selects(pending, workload.namespace))
        waiter = self._waiters[workload.key] = Waiter(workload, place(workload), until, obstacle)
        if until is not None and until != NEVER:
            heappush(self._wakes, (until, workload.key))
        pending.insert(waiter)
        self._changed(pending)

    def remove(self, key: str, *, taken: Usage | None = None) -> None:
        """A workload waits no longer; it was admitted if something was taken."""
        if (waiter := self._waiters.pop(key, None)) is not None:
            pending = self._pending[waiter.workload.queue]
            if pending.parked is not None and pending.parked.claim == taken:
                self._claims.pop(pending.name, None)  # what it kept from others it has now
            pending.take(waiter)
            self._changed(pending)
            self._drop_if_unused(pending)
            if taken is not None and pending.by_usage:
                for charge in self._charges:
                    charge(waiter.workload, taken)

    def on_charge(self, charge: Charge) -> None:
        """Call `charge(workload, taken)` when a workload of a ClusterQueue that goes by past usage got something.

        The account sets the usage anew in that call, before the queues are asked which workload is next.
        """
        self._charges.append(charge)

    def flush(self, node: Node, freed: Iterable[FlavorResource] | None = None) -> None:
        """Something happened in the tree of the node that could help those who do not fit.

        freed: it could help only who might take some of this; None is everybody.
        """
        known = self._freed.get(node, set())
        self._freed[node] = None if freed is None or known is None else known.union(freed)

    def flush_places(self) -> None:
        """There is a place on nodes that was not, for whichever tree."""
        self._places_freed = True

    def _flush(self) -> None:
        """Do what was asked for by `flush`; once for a tree, however much ended in it."""
        if self._places_freed:
            self._places_freed = False
            for waiting in self._pending.values():
                if waiting.wake_unplaced():
                    self._changed(waiting)
        if not self._freed:
            return
        freed: dict[Node, set[FlavorResource] | None] = {}
        for node, some in self._freed.items():
            known = freed.setdefault(node.root, set())
            freed[node.root] = None if some is None or known is None else known | some
        self._freed.clear()
        for root, some in freed.items():
            for queue in root.queues():
                if (pending := self._pending.get(queue.name)) is not None and pending.wake(some):
                    self._changed(pending)

    @property
    def usage(self) -> Mapping[str, float]:
        """The past usage of LocalQueues, as it is set from time to time; 0 of those that are not here."""
        return self._usage

    # What admission asks and decides.

    def advance(self, now: datetime) -> None:
        """Let those be tried who were held back until now."""
        while (at := self.next_wake) is not None and at <= now:
            waiter = self._waiters[heappop(self._wakes)[1]]
            waiter.until = None
            pending = self._pending[waiter.workload.queue]
            pending.file(waiter)
            self._changed(pending)

    @property
    def next_wake(self) -> datetime | None:
        """When `advance` will find a workload."""
        while self._wakes:
            at, key = self._wakes[0]
            waiter = self._waiters.get(key)
            if waiter is not None and waiter.until == at:
                return at
            heappop(self._wakes)
        return None

    @property
    def untried(self) -> list[str]:
        """ClusterQueues whose head has not been tried since something changed."""
        self._flush()
        return list(self._untried)

    @property
    def parked(self) -> Mapping[str, Parked]:
        """ClusterQueues whose head was tried and keeps something from others, or waits for pods."""
        return self._parked

    def sticky(self, key: str) -> bool:
        """Whether it stays the head until its victims are gone."""
        waiter = self._waiters.get(key)
        return waiter is not None and not waiter.place[0]

    def head(self, queue: str) -> WorkloadInfo | None:
        """Who is to be tried next in a ClusterQueue."""
        self._flush()
        pending = self._pending.get(queue)
        return pending.head() if pending is not None else None

    def set_aside(self, workload: WorkloadInfo, note: PendingReason, *, unplaced: bool = False) -> None:
        """It does not fit, and no other like it does. unplaced: see `queue.EquivalenceClass`."""
        pending = self._pending[workload.queue]
        self._stick(self._waiters[workload.key], sticky=False)
        equivalence = self._class_of(workload)
        equivalence.unplaced = unplaced
        pending.set_aside(equivalence, note)
        self._changed(pending)

    def park(
        self,
        workload: WorkloadInfo,
        note: PendingReason,
        claim: Usage,
        *,
        sticky: bool = False,
        blocker: str = "",
        unplaced: bool = False,
    ) -> None:
        """The head of a ClusterQueue cannot be admitted yet, and stays the head; see `queue.Parked`."""
        waiter, pending = self._waiters[workload.key], self._pending[workload.queue]
        self._stick(waiter, sticky=sticky and not (pending.spec is not None and pending.spec.strict))
        equivalence = self._class_of(workload)
        equivalence.note, equivalence.unplaced = note, unplaced
        pending.parked, pending.tried = Parked(waiter.place, note, claim, blocker), True
        self._changed(pending)

    def retry(self, queue: str) -> None:
        """Try the head again."""
        if (pending := self._pending.get(queue)) is not None:
            pending.tried = False
            self._changed(pending)

    def take_lifted(self) -> Mapping[str, frozenset[FlavorResource]]:
        """What ClusterQueues kept from others at the last call, where they no longer keep just that."""
        lifted = {}
        for name in sorted(self._reparked):
            parked = self._parked.get(name)
            old, new = self._claims.pop(name, None), parked.claim if parked is not None else {}
            if old and old != new:
                lifted[name] = frozenset(old)
            if new:
                self._claims[name] = new
        self._reparked.clear()
        return lifted

    # What users ask.

    def why(self, key: str) -> PendingReason | None:
        """Why it waits, as far as is known: that of the last decision about it or one like it."""
        waiter = self._waiters.get(key)
        if waiter is None:
            return None
        if (closed := self._pending[waiter.workload.queue].closed) is not None:
            return closed
        if waiter.obstacle is not None:
            return waiter.obstacle
        return waiter.equivalence.note if waiter.equivalence is not None else HELD_BACK

    def workload(self, key: str) -> WorkloadInfo | None:
        """A workload as it waits; None if it does not."""
        waiter = self._waiters.get(key)
        return waiter.workload if waiter is not None else None

    def waiting(self, queue: str) -> list[str]:
        """All that wait in a ClusterQueue, in no order."""
        return list(pending.waiters) if (pending := self._pending.get(queue)) is not None else []

    def position(self, key: str) -> Position | None:
        """Where a workload stands; None if it does not wait, or its LocalQueue is stopped."""
        waiter = self._waiters.get(key)
        if waiter is None or waiter.workload.local_queue in self._stopped:
            return None
        return Position(waiter.workload, *self._pending[waiter.workload.queue].position(waiter))

    def pending(self, queue: str, *, offset: int = 0, limit: int = 1000) -> Iterator[Position]:
        """Who waits in a ClusterQueue, in order, whether tried or not, but for those whose LocalQueue is stopped."""
        if (pending := self._pending.get(queue)) is not None:
            for number, found in enumerate(pending.places(offset, limit), offset):
                waiter = self._waiters[found[-1]]
                in_local = pending.local[waiter.workload.local_queue].bisect_left(found)
                yield Position(waiter.workload, number, in_local)

    def pending_local(self, local_queue: str, queue: str, *, offset: int = 0, limit: int = 1000) -> Iterator[Position]:
        """Who waits in a LocalQueue of a ClusterQueue, in order; nothing does while it is stopped."""
        pending = None if local_queue in self._stopped else self._pending.get(queue)
        places = pending.local.get(local_queue, ()) if pending is not None else ()
        for found in places.islice(offset, offset + limit) if places else ():
            yield Position(self._waiters[found[-1]].workload, *self._pending[queue].position(self._waiters[found[-1]]))

    def counts(self, queue: str) -> tuple[int, int]:
        """How many of a ClusterQueue are to be tried, and how many are not (metric `pending_workloads`).

        Those of a LocalQueue that is stopped do not count as pending.
        """
        self._flush()
        pending = self._pending.get(queue)
        if pending is None:
            return 0, 0
        return pending.active, len(pending.everyone) - pending.active

    def counts_by_local(self, queue: str) -> dict[str, tuple[int, int]]:
        """The same for each LocalQueue of it with pending workloads, unless it is stopped."""
        pending = self._pending.get(queue)
        if pending is None:
            return {}
        active = pending.active_by_local()
        return {
            name: (active[name], len(places) - active[name])
            for name, places in pending.local.items()
            if name not in self._stopped
        }

    def waiting_local(self, local_queue: str, queue: str) -> int:
        """How many wait in a LocalQueue of a ClusterQueue; none count that wait while it is stopped."""
        pending = self._pending.get(queue)
        return (
            len(pending.local.get(local_queue, ())) if pending is not None and local_queue not in self._stopped else 0
        )

    def classes(self, queue: str) -> tuple[int, int]:
        """How many kinds of workloads are to be tried, and how many are not (metric `pending_scheduling_hashes`)."""
        self._flush()
        pending = self._pending.get(queue)
        return pending.classes if pending is not None else (0, 0)

    def asked(self, queue: str) -> dict[str, int]:
        """What those ask for together who are pending: of what the ClusterQueue has, and of what else they name."""
        pending = self._pending.get(queue)
        if pending is None or pending.spec is None:
            return {}
        covered = {resource: 0 for group in pending.spec.groups for resource in group.resources}
        total = Counter(covered)
        for name, amounts in pending.asked.items():
            if name not in self._stopped:
                total.update(amounts)
        return {resource: amount for resource, amount in total.items() if resource in covered or resource != PODS}

    def __len__(self) -> int:
        return len(self._waiters)

    def __contains__(self, key: str) -> bool:
        return key in self._waiters

    def _pending_queue(self, name: str) -> PendingQueue:
        if name not in self._pending:
            self._pending[name] = PendingQueue(name, self._usage, self._stopped)
        return self._pending[name]

    def _drop_if_unused(self, pending: PendingQueue) -> None:
        if pending.spec is None and not pending.waiters:
            del self._pending[pending.name]

    def _stick(self, waiter: Waiter, *, sticky: bool) -> None:
        if waiter.place[0] == sticky:
            pending = self._pending[waiter.workload.queue]
            pending.take(waiter)
            waiter.place = place(waiter.workload, sticky=sticky)
            pending.insert(waiter)

    def _class_of(self, workload: WorkloadInfo) -> EquivalenceClass:
        equivalence = self._waiters[workload.key].equivalence
        assert equivalence is not None, f"{workload.key} was not to be tried"
        return equivalence

    def _selects(self, pending: PendingQueue, namespace: str) -> bool:
        matcher = pending.spec.namespaces if pending.spec is not None else None
        return matcher is not None and matcher.matches(self._labels.get(namespace, {}))

    def _obstacle(self, workload: WorkloadInfo, *, selected: bool) -> PendingReason | None:
        if workload.local_queue in self._stopped:
            return PendingReason("Suspended", f"LocalQueue {workload.local_queue.partition('/')[2]} is inactive")
        return None if selected else _NOT_SELECTED

    def _review(self, pending: PendingQueue, waiters: Iterable[Waiter]) -> None:
        """What is in the way of some may be another."""
        for waiter in waiters:
            selected = self._selects(pending, waiter.workload.namespace)
            waiter.obstacle = self._obstacle(waiter.workload, selected=selected)
            pending.unfile(waiter)
            pending.file(waiter)
        self._changed(pending)

    def _same(self, old: Waiter, workload: WorkloadInfo, until: datetime | None) -> bool:
        """Whether nothing changed that admission looks at."""
        was = old.workload
        return (
            old.until == until
            and was.podsets == workload.podsets
            and place(was) == place(workload)
            and (was.queue, was.local_queue, was.blocks) == (workload.queue, workload.local_queue, workload.blocks)
        )

    def _changed(self, pending: PendingQueue) -> None:
        """Note whether the head of a pending queue is to be tried, and what its former head no longer claims."""
        head = pending.head()
        if pending.parked is not None and (head is None or head.key != pending.parked.place[-1]):
            pending.parked = None
        pending.tried = pending.tried and pending.parked is not None
        if head is not None and not pending.tried:
            self._untried[pending.name] = None
        else:
            self._untried.pop(pending.name, None)
        parked = (
            pending.parked if pending.parked is not None and (pending.parked.claim or pending.parked.blocker) else None
        )
        if parked is not self._parked.get(pending.name):
            self._reparked.add(pending.name)
            if parked is not None:
                self._parked[pending.name] = parked
            else:
                del self._parked[pending.name]
