"""The workloads that wait in one ClusterQueue: their order, the next one to try, and those not worth trying now.

Workloads that differ for admission only by their position (same podsets, same priority) form an equivalence class. If
the first workload of a class does not fit, none of the class fits. So whole classes are tried, set aside and reopened,
and the cost of a decision does not depend on the number of waiting workloads.

Sorted lists hold the positions of all workloads, so that finding a position takes logarithmic time.
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

from muster.api.ours.teams import NO_LIMITS
from muster.queueing.model import PODS, FlavorResource, PendingReason, Places, PodSet, QueueSpec, Usage, WorkloadInfo
from muster.queueing.pending.ordering import Place


class _Entry(NamedTuple):
    """The entry of an equivalence class in the order of the classes to try.

    usage: the past usage of the class's LocalQueue, which is compared first.
    place: the sort key of the class's first workload, which is compared second.
    """

    usage: float
    place: Place
    equivalence: "EquivalenceClass"


class Parked(Struct, frozen=True):
    """The state of a head that cannot be admitted yet but stays the head.

    note: why the head waits.
    claim: the quota that is reserved for the head, so that no other workload uses it.
    blocker: the key of the workload whose pods must become ready first; "" if there is none.
    victims: the keys of the evicted workloads for which the head waits. Until they have terminated, their quota is
    reserved for the claim.
    places: the topology domains of the head's pods after the victims have terminated.
    """

    place: Place
    note: PendingReason
    claim: Usage
    blocker: str = ""
    victims: frozenset[str] = frozenset()
    places: tuple[Places, ...] = ()


class EquivalenceClass:
    """A set of waiting workloads with equal requests: if the first of them does not fit, none of them fits.

    needs: every flavor and resource that they might use.
    places: the sort keys of the workloads.
    aside: whether the class was tried and does not fit.
    unplaced: whether the class waits for room in topology domains, so that a domain freed by any tree could help.
    limited: whether a limit of the class's user was reached, so that the end of any workload could help.
    entry: the class's entry in the order of classes to try; None while the class is not active.
    """

    __slots__ = ("aside", "entry", "identity", "limited", "local_queue", "needs", "note", "places", "unplaced")

    def __init__(self, identity: Hashable, local_queue: str, needs: frozenset[FlavorResource]) -> None:
        self.identity = identity
        self.local_queue = local_queue
        self.needs = needs
        self.places = SortedList()
        self.note: PendingReason | None = None
        self.aside = False
        self.unplaced = False
        self.limited = False
        self.entry: _Entry | None = None


class Waiter(Struct):
    """A waiting workload with its state in the queue.

    until: the time before which the workload may not be tried; None if it may be tried now.
    obstacle: why the workload may not be tried, however much quota is free; None if nothing prevents it.
    """

    workload: WorkloadInfo
    place: Place
    until: datetime | None = None
    obstacle: PendingReason | None = None
    equivalence: EquivalenceClass | None = None


def make_class_key(podsets: Iterable[PodSet]) -> Hashable:
    """Return a value that is equal for podsets that admission cannot tell apart."""
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
            podset.allowed,
        )
        for podset in podsets
    )


def needs(workload: WorkloadInfo, spec: QueueSpec | None) -> frozenset[FlavorResource]:
    """Return every flavor and resource that the workload could use in the ClusterQueue."""
    if spec is None:
        return frozenset()
    resources = {resource for podset in workload.podsets for resource in podset.requests} | {PODS}
    return frozenset(
        FlavorResource(flavor, resource)
        for group in spec.groups
        for resource in resources.intersection(group.resources)
        for flavor in group.flavors
    )


def _sum_requests(workload: WorkloadInfo) -> Counter[str]:
    """Return the requests of the workload, summed over all its pods."""
    total = Counter[str]()
    for podset in workload.podsets:
        total[PODS] += podset.count
        for resource, amount in podset.requests.items():
            total[resource] += amount * podset.count
    return total


class PendingQueue:
    """The waiting workloads of one ClusterQueue, in order.

    usage: the past usage of LocalQueues.
    stopped: the stopped LocalQueues, whose workloads have no position.

    `Queues` owns both collections and updates them.
    """

    def __init__(self, name: str, usage: Mapping[str, float], stopped: AbstractSet[str]) -> None:
        self.name = name
        self.spec: QueueSpec | None = None
        self.closed: PendingReason | None = PendingReason("Misconfigured", f"ClusterQueue {name} doesn't exist")
        self.parked: Parked | None = None
        self.tried = False  # whether the head was tried and nothing has changed since
        self.waiters: dict[str, Waiter] = {}
        self.everyone = SortedList()  # all workloads in order, without those of stopped LocalQueues
        self.local: dict[str, SortedList] = {}
        self.asked: dict[str, Counter[str]] = {}  # the total requests of each LocalQueue
        self._usage = usage
        self._stopped = stopped
        self._classes: dict[Hashable, EquivalenceClass] = {}
        self._open = SortedList()
        self._aside: dict[EquivalenceClass, None] = {}

    @property
    def orders_by_usage(self) -> bool:
        """Whether the past usage of LocalQueues orders the workloads before priority and time do."""
        return self.spec is not None and self.spec.by_usage

    @property
    def active(self) -> int:
        """The number of active workloads."""
        return 0 if self.closed is not None else sum(len(entry.equivalence.places) for entry in self._open)

    def keys(self) -> Iterator[tuple[str, bool]]:
        """Return the key of every workload whose LocalQueue is not stopped, and whether the workload is active.

        This takes linear time.
        """
        open_ = set() if self.closed is not None else {place.key for place in self._open_places()}
        return ((place.key, place.key in open_) for place in self.everyone)

    def active_by_local(self) -> Counter[str]:
        """Return how many workloads of each LocalQueue are active.

        This takes linear time.
        """
        if self.closed is not None:
            return Counter()
        waiters = self.waiters
        return Counter(waiters[place.key].workload.local_queue for place in self._open_places())

    @property
    def classes(self) -> tuple[int, int]:
        """The number of active classes, and of classes that were tried and do not fit."""
        if self.closed is not None:
            return 0, len(self._classes)
        return len(self._classes) - len(self._aside), len(self._aside)

    def insert(self, waiter: Waiter) -> None:
        """Add a waiting workload to the queue, to its LocalQueue's order, and to its equivalence class."""
        self.waiters[waiter.workload.key] = waiter
        if waiter.workload.local_queue not in self._stopped:
            self.everyone.add(waiter.place)
        self.local.setdefault(waiter.workload.local_queue, SortedList()).add(waiter.place)
        self.asked.setdefault(waiter.workload.local_queue, Counter()).update(_sum_requests(waiter.workload))
        self.put_into_class(waiter)

    def take(self, waiter: Waiter) -> None:
        """Remove a workload from the queue, because it no longer waits, or is about to be decided."""
        self.take_out_of_class(waiter)
        del self.waiters[waiter.workload.key]
        if waiter.workload.local_queue not in self._stopped:
            self.everyone.remove(waiter.place)
        places = self.local[waiter.workload.local_queue]
        places.remove(waiter.place)
        self.asked[waiter.workload.local_queue].subtract(_sum_requests(waiter.workload))
        if not places:
            del self.local[waiter.workload.local_queue], self.asked[waiter.workload.local_queue]

    def stop(self, local_queue: str) -> None:
        """Remove the workloads of a LocalQueue that was just stopped from `everyone`. They continue to wait."""
        for place in self.local[local_queue]:
            self.everyone.remove(place)

    def resume(self, local_queue: str) -> None:
        """Give the workloads of a LocalQueue that was resumed their positions in `everyone` again."""
        self.everyone.update(self.local[local_queue])

    def put_into_class(self, waiter: Waiter) -> None:
        """Put a workload into its equivalence class, so that it will be tried.

        A workload with an obstacle, or in its backoff, stays out.
        """
        if waiter.until is not None or waiter.obstacle is not None:
            return
        workload, identity = waiter.workload, self._identify(waiter.workload, waiter.place)
        equivalence = self._classes.get(identity)
        if equivalence is None:
            local_queue = workload.local_queue if self.orders_by_usage else ""
            equivalence = self._classes[identity] = EquivalenceClass(identity, local_queue, needs(workload, self.spec))
        equivalence.places.add(waiter.place)
        waiter.equivalence = equivalence
        if equivalence.aside and equivalence.places[0] is waiter.place:
            # The first workload may preempt newer ones, so it may succeed where the others failed.
            self.reopen(equivalence)
        else:
            self._refile(equivalence)

    def _identify(self, workload: WorkloadInfo, at: Place) -> Hashable:
        """Return a value that is equal for the workloads of an equivalence class.

        at: the sort key of the workload.
        """
        local_queue = workload.local_queue if self.orders_by_usage else ""
        limited_user = workload.owner if self.spec is not None and self.spec.limits != NO_LIMITS else ""
        own = workload.family, workload.gated, limited_user
        return local_queue, workload.priority, at.loose, own, make_class_key(workload.podsets)

    def is_after(self, workload: WorkloadInfo, at: Place, other: WorkloadInfo, before: Place) -> bool:
        """Return whether a workload is certainly tried after another workload, which need not be waiting any more.

        That is so if no workload of this queue passes another, or if both are of one class.

        at, before: the sort keys of the workload and of the other.
        """
        if before > at:
            return False
        if self.spec is not None and self.spec.strict and self.spec.limits == NO_LIMITS and not self.orders_by_usage:
            return not other.growth_of
        return self._identify(workload, at) == self._identify(other, before)

    def is_behind(self, workload: WorkloadInfo, at: Place) -> bool:
        """Return whether a workload added now would certainly be tried after some waiting workload.

        at: the workload's sort key.
        """
        if (equivalence := self._classes.get(self._identify(workload, at))) is not None:
            return bool(equivalence.places[0] < at)
        head = self.head()
        return head is not None and self.is_after(workload, at, head, self.waiters[head.key].place)

    def take_out_of_class(self, waiter: Waiter) -> None:
        """Take a workload out of its equivalence class, so that it will not be tried."""
        if (equivalence := waiter.equivalence) is not None:
            equivalence.places.remove(waiter.place)
            waiter.equivalence = None
            if not equivalence.places:
                del self._classes[equivalence.identity]
                self._aside.pop(equivalence, None)
            self._refile(equivalence)

    def head(self) -> WorkloadInfo | None:
        """Return the workload to try next; None if there is none or the queue is closed."""
        if self.closed is not None or not self._open:
            return None
        entry: _Entry = self._open[0]
        return self.waiters[entry.place.key].workload

    def set_aside(self, equivalence: EquivalenceClass, note: PendingReason) -> None:
        """Mark an equivalence class of workloads as not fitting, so that no cycle tries them until something changes.

        note: why the workloads wait, for their conditions.
        """
        equivalence.note = note
        equivalence.aside = True
        self._aside[equivalence] = None
        self._refile(equivalence)

    def reopen(self, equivalence: EquivalenceClass) -> None:
        """Mark an equivalence class as worth trying again."""
        equivalence.aside = False
        self._aside.pop(equivalence, None)
        self._refile(equivalence)

    def wake(self, freed: AbstractSet[FlavorResource] | None) -> bool:
        """Reopen the classes that might use some of the freed quota, or whose user had reached a limit.

        Return whether a class or the parked head is to be tried again.

        freed: the flavors and resources of the freed quota; None for any.
        """
        if not self._aside and self.parked is None:
            return False
        woken = [
            equivalence
            for equivalence in self._aside
            if freed is None or equivalence.limited or not equivalence.needs.isdisjoint(freed)
        ]
        for equivalence in woken:
            self.reopen(equivalence)
        if self.parked is not None and self.tried:
            head = self.waiters[self.parked.place.key].equivalence
            self.tried = not (freed is None or head is None or not head.needs.isdisjoint(freed))
            return bool(woken) or not self.tried
        return bool(woken)

    def wake_unplaced(self) -> bool:
        """Reopen the classes that found no topology domain for their pods.

        Return whether a class or the parked head is to be tried again.
        """
        woken = [equivalence for equivalence in self._aside if equivalence.unplaced]
        for equivalence in woken:
            self.reopen(equivalence)
        if self.parked is None or not self.tried:
            return bool(woken)
        head = self.waiters[self.parked.place.key].equivalence
        self.tried = head is not None and not head.unplaced
        return bool(woken) or not self.tried

    def refresh(self) -> None:
        """Build all classes again, because the specification or the obstacles of workloads changed."""
        self._classes.clear()
        self._open.clear()
        self._aside.clear()
        self.parked = None
        for waiter in self.waiters.values():
            waiter.equivalence = None
            self.put_into_class(waiter)

    def weigh(self, local_queue: str) -> None:
        """Sort the classes of a LocalQueue again, because its past usage changed."""
        for equivalence in self._classes.values():
            if equivalence.local_queue == local_queue:
                self._refile(equivalence)

    def _refile(self, equivalence: EquivalenceClass) -> None:
        entry: _Entry | None = None
        if equivalence.places and not equivalence.aside:
            usage = self._usage.get(equivalence.local_queue, 0.0)
            entry = _Entry(usage, equivalence.places[0], equivalence)
        if entry == equivalence.entry:
            return
        if equivalence.entry is not None:
            self._open.remove(equivalence.entry)
        if entry is not None:
            self._open.add(entry)
        equivalence.entry = entry

    # Positions of all workloads whose LocalQueue is not stopped, including those that are not tried.

    def position(self, waiter: Waiter) -> tuple[int, int]:
        """Return how many workloads are before this one in the ClusterQueue and in its LocalQueue.

        The LocalQueue must not be stopped.
        """
        mine = waiter.workload.local_queue
        in_local = self.local[mine].bisect_left(waiter.place)
        if not self.orders_by_usage:
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
        """Return the sort keys of at most `limit` workloads of the queue from position `start`, in order."""
        if not self.orders_by_usage:
            return iter(self.everyone.islice(start, start + limit))
        return islice(self._iterate_by_usage(), start, start + limit)

    def _open_places(self) -> Iterator[Place]:
        """Return the sort keys of the active workloads."""
        return (place for entry in self._open for place in entry.equivalence.places)

    def _iterate_by_usage(self) -> Iterator[Place]:
        def usage(name: str) -> float:
            return self._usage.get(name, 0.0)

        for _, names in groupby(sorted(self.local.keys() - self._stopped, key=usage), key=usage):
            yield from merge(*(self.local[name] for name in names))
