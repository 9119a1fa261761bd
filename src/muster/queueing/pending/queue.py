"""Those who wait in one ClusterQueue: in which order, who is tried next, and who is not tried for now.

Workloads that admission cannot tell apart but by their place (same podsets, same priority) form a class. If the first
of a class does not fit, none of it does; so it is classes that are tried, set aside and woken, and what a decision
costs does not depend on how many wait. Everybody's place is kept apart from that, in sorted lists: positions take
logarithmic time.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from heapq import merge
from itertools import groupby, islice
from typing import NamedTuple

from msgspec import Struct
from sortedcontainers import SortedList

from muster.queueing.model import PODS, FlavorResource, PodSet, QueueSpec, Usage, WorkloadInfo
from muster.queueing.pending.ordering import Place

# Usage of a LocalQueue, place, and the class whose first member stands there.
_Entry = tuple[float, Place, "EquivalenceClass"]


class PendingReason(NamedTuple):
    """Why a workload waits: reason and message of its condition QuotaReserved=False."""

    reason: str
    message: str


class Parked(Struct, frozen=True):
    """The head was tried, cannot be admitted yet, and stays the head.

    claim: what it keeps others from taking. blocker: the workload whose pods it waits for.
    """

    place: Place
    note: PendingReason
    claim: Usage
    blocker: str = ""


class EquivalenceClass:
    """A class of workloads.

    needs: every flavor and resource that it might take. places: of its members. aside: it was tried and does not fit.
    unplaced: a place for its pods could help, in whatever tree it becomes free.
    entry: where it stands among the classes to be tried, if it does.
    """

    __slots__ = ("aside", "entry", "identity", "local_queue", "needs", "note", "places", "unplaced")

    def __init__(self, identity: Hashable, local_queue: str, needs: frozenset[FlavorResource]) -> None:
        self.identity = identity
        self.local_queue = local_queue
        self.needs = needs
        self.places = SortedList()
        self.note: PendingReason | None = None
        self.aside = False
        self.unplaced = False
        self.entry: _Entry | None = None


class Waiter(Struct):
    """A workload that waits, and where it is found.

    until: not before then; None is at once. obstacle: why it may not be tried at all, whatever is free.
    """

    workload: WorkloadInfo
    place: Place
    until: datetime | None = None
    obstacle: PendingReason | None = None
    equivalence: EquivalenceClass | None = None


def shape(podsets: Iterable[PodSet]) -> Hashable:
    """Everything about podsets that admission looks at."""
    return tuple(
        (
            podset.name,
            podset.count,
            podset.least,
            tuple(sorted(podset.requests.items())),
            tuple(sorted(podset.selector.items())),
            podset.terms,
            podset.tolerations,
            podset.together,
            tuple(sorted(podset.flavors.items())),
            tuple(sorted(podset.asks.items())),
            podset.topology,
        )
        for podset in podsets
    )


def needs(workload: WorkloadInfo, spec: QueueSpec | None) -> frozenset[FlavorResource]:
    """Every flavor and resource that the workload could take in the ClusterQueue."""
    if spec is None:
        return frozenset()
    resources = {resource for podset in workload.podsets for resource in podset.requests} | {PODS}
    return frozenset(
        FlavorResource(flavor, resource)
        for group in spec.groups
        for resource in resources.intersection(group.resources)
        for flavor in group.flavors
    )


def _requests(workload: WorkloadInfo) -> Counter[str]:
    """Of all its pods together."""
    total = Counter[str]()
    for podset in workload.podsets:
        total[PODS] += podset.count
        for resource, amount in podset.requests.items():
            total[resource] += amount * podset.count
    return total


class PendingQueue:
    """The pending queue of one ClusterQueue.

    usage: the past usage of LocalQueues. stopped: those that are stopped, whose workloads have no position. `Queues`
    keeps both.
    """

    def __init__(self, name: str, usage: Mapping[str, float], stopped: AbstractSet[str]) -> None:
        self.name = name
        self.spec: QueueSpec | None = None
        self.closed: PendingReason | None = PendingReason("Misconfigured", f"ClusterQueue {name} doesn't exist")
        self.parked: Parked | None = None
        self.tried = False  # whether nothing happened since the head was parked
        self.waiters: dict[str, Waiter] = {}
        self.everyone = SortedList()  # but those of LocalQueues that are stopped
        self.local: dict[str, SortedList] = {}
        self.asked: dict[str, Counter[str]] = {}  # what those of each LocalQueue ask for together
        self._usage = usage
        self._stopped = stopped
        self._classes: dict[Hashable, EquivalenceClass] = {}
        self._open = SortedList()
        self._aside: dict[EquivalenceClass, None] = {}

    @property
    def by_usage(self) -> bool:
        """Whether past usage of LocalQueues comes before everything else."""
        return self.spec is not None and self.spec.by_usage

    @property
    def active(self) -> int:
        """How many are to be tried."""
        return 0 if self.closed is not None else sum(len(entry[2].places) for entry in self._open)

    def active_by_local(self) -> Counter[str]:
        """How many of each LocalQueue are to be tried; looks at each of them."""
        if self.closed is not None:
            return Counter()
        waiters = self.waiters
        return Counter(waiters[place[-1]].workload.local_queue for entry in self._open for place in entry[2].places)

    @property
    def classes(self) -> tuple[int, int]:
        """How many classes are to be tried, and how many were tried and do not fit."""
        if self.closed is not None:
            return 0, len(self._classes)
        return len(self._classes) - len(self._aside), len(self._aside)

    def insert(self, waiter: Waiter) -> None:
        """A workload comes."""
        self.waiters[waiter.workload.key] = waiter
        if waiter.workload.local_queue not in self._stopped:
            self.everyone.add(waiter.place)
        self.local.setdefault(waiter.workload.local_queue, SortedList()).add(waiter.place)
        self.asked.setdefault(waiter.workload.local_queue, Counter()).update(_requests(waiter.workload))
        self.file(waiter)

    def take(self, waiter: Waiter) -> None:
        """A workload leaves."""
        self.unfile(waiter)
        del self.waiters[waiter.workload.key]
        if waiter.workload.local_queue not in self._stopped:
            self.everyone.remove(waiter.place)
        places = self.local[waiter.workload.local_queue]
        places.remove(waiter.place)
        self.asked[waiter.workload.local_queue].subtract(_requests(waiter.workload))
        if not places:
            del self.local[waiter.workload.local_queue], self.asked[waiter.workload.local_queue]

    def stop(self, local_queue: str) -> None:
        """A LocalQueue was just stopped: its workloads are in no order any more."""
        for found in self.local[local_queue]:
            self.everyone.remove(found)

    def resume(self, local_queue: str) -> None:
        """A LocalQueue is no longer stopped: its workloads are where they would have been."""
        self.everyone.update(self.local[local_queue])

    def file(self, waiter: Waiter) -> None:
        """Let a workload be tried with those like it, unless something is in its way."""
        if waiter.until is not None or waiter.obstacle is not None:
            return
        workload = waiter.workload
        local_queue = workload.local_queue if self.by_usage else ""
        identity = (local_queue, workload.priority, waiter.place[0], shape(workload.podsets))
        equivalence = self._classes.get(identity)
        if equivalence is None:
            equivalence = self._classes[identity] = EquivalenceClass(identity, local_queue, needs(workload, self.spec))
        equivalence.places.add(waiter.place)
        waiter.equivalence = equivalence
        if equivalence.aside and equivalence.places[0] is waiter.place:
            # The order is also a right, to displace those who are newer: the first may succeed where others did not.
            self.reopen(equivalence)
        else:
            self._refile(equivalence)

    def unfile(self, waiter: Waiter) -> None:
        """It is not to be tried."""
        if (equivalence := waiter.equivalence) is not None:
            equivalence.places.remove(waiter.place)
            waiter.equivalence = None
            if not equivalence.places:
                del self._classes[equivalence.identity]
                self._aside.pop(equivalence, None)
            self._refile(equivalence)

    def head(self) -> WorkloadInfo | None:
        """Who is to be tried next."""
        if self.closed is not None or not self._open:
            return None
        entry: _Entry = self._open[0]
        return self.waiters[entry[1][-1]].workload

    def set_aside(self, equivalence: EquivalenceClass, note: PendingReason) -> None:
        """None of the class fits now."""
        equivalence.note = note
        equivalence.aside = True
        self._aside[equivalence] = None
        self._refile(equivalence)

    def reopen(self, equivalence: EquivalenceClass) -> None:
        """Try the class again."""
        equivalence.aside = False
        self._aside.pop(equivalence, None)
        self._refile(equivalence)

    def wake(self, freed: AbstractSet[FlavorResource] | None) -> bool:
        """Something is free that was not (None: anything): try again what might take some; whether any might."""
        woken = [equivalence for equivalence in self._aside if freed is None or not equivalence.needs.isdisjoint(freed)]
        for equivalence in woken:
            self.reopen(equivalence)
        if self.parked is not None and self.tried:
            head = self.waiters[self.parked.place[-1]].equivalence
            self.tried = not (freed is None or head is None or not head.needs.isdisjoint(freed))
            return bool(woken) or not self.tried
        return bool(woken)

    def wake_unplaced(self) -> bool:
        """There is a place that was not: try again what looked for one; whether anything did."""
        woken = [equivalence for equivalence in self._aside if equivalence.unplaced]
        for equivalence in woken:
            self.reopen(equivalence)
        if self.parked is None or not self.tried:
            return bool(woken)
        head = self.waiters[self.parked.place[-1]].equivalence
        self.tried = head is not None and not head.unplaced
        return bool(woken) or not self.tried

    def refresh(self) -> None:
        """The specification, or what is in the way of whom, is another."""
        self._classes.clear()
        self._open.clear()
        self._aside.clear()
        self.parked = None
        for waiter in self.waiters.values():
            waiter.equivalence = None
            self.file(waiter)

    def weigh(self, local_queue: str) -> None:
        """The past usage of a LocalQueue is another."""
        for equivalence in self._classes.values():
            if equivalence.local_queue == local_queue:
                self._refile(equivalence)

    def _refile(self, equivalence: EquivalenceClass) -> None:
        entry: _Entry | None = None
        if equivalence.places and not equivalence.aside:
            entry = (self._usage.get(equivalence.local_queue, 0.0), equivalence.places[0], equivalence)
        if entry == equivalence.entry:
            return
        if equivalence.entry is not None:
            self._open.remove(equivalence.entry)
        if entry is not None:
            self._open.add(entry)
        equivalence.entry = entry

    # Positions: of every workload that waits in a LocalQueue that is not stopped, whether tried or not.

    def position(self, waiter: Waiter) -> tuple[int, int]:
        """How many are before it in the ClusterQueue and in its LocalQueue, which is not stopped."""
        mine = waiter.workload.local_queue
        in_local = self.local[mine].bisect_left(waiter.place)
        if not self.by_usage:
            return self.everyone.bisect_left(waiter.place), in_local
        usage = self._usage.get(mine, 0.0)
        before = 0
        for name in self.local.keys() - self._stopped:
            places = self.local[name]
            other = self._usage.get(name, 0.0)
            if other < usage:
                before += len(places)
            elif other == usage:
                before += places.bisect_left(waiter.place)
        return before, in_local

    def places(self, start: int, limit: int) -> Iterator[Place]:
        """A part of the queue, in order."""
        if not self.by_usage:
            return iter(self.everyone.islice(start, start + limit))
        return islice(self._by_usage(), start, start + limit)

    def _by_usage(self) -> Iterator[Place]:
        def usage(name: str) -> float:
            return self._usage.get(name, 0.0)

        for _, names in groupby(sorted(self.local.keys() - self._stopped, key=usage), key=usage):
            yield from merge(*(self.local[name] for name in names))
