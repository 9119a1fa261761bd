"""Hold the workloads that wait for quota, by ClusterQueue, and decide when each should be tried again.

A waiting workload is in one of three states:

- It is active: it will be tried.
- It was tried and does not fit (inadmissible). This state covers a whole equivalence class.
- It has an obstacle, however much quota is free: it backs off after an eviction, its LocalQueue is stopped, its
  namespace is not selected, or its ClusterQueue is for other users.

A workload is tried again only after an event that could help:

- a flush of its tree (`flush`), for workloads that might use some of the freed quota;
- a change of the workload itself, the end of its backoff (`advance`), or a change of a namespace or a LocalQueue.

The requeue rules are Kueue's, without two rules that Kueue needs because its queue has a lock and a delay. Decisions
here are synchronous, so no event can be missed between a decision and its outcome, and no flush waits for a second.

Adding all waiting workloads again rebuilds the state, except for which of them do not fit.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from heapq import heappop, heappush
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from muster.queueing.model import PODS, FlavorResource, PendingReason, Places, QueueSpec, Usage, WorkloadInfo
from muster.queueing.moments import NEVER
from muster.queueing.pending.displaced import Displacements
from muster.queueing.pending.ordering import place
from muster.queueing.pending.queue import EquivalenceClass, Parked, PendingQueue, Waiter
from muster.queueing.pending.users import find_foreigner
from muster.queueing.quota.tree import Node

# The reason of a workload that backs off, or that waits until the caller adds it again.
HELD_BACK: Final = PendingReason("PendingEvaluation", "The workload waits before it is queued again")
_NOT_SELECTED: Final = PendingReason("Misconfigured", "workload namespace doesn't match ClusterQueue selector")


class Position(Struct, frozen=True):
    """The positions of a waiting workload in its ClusterQueue and in its LocalQueue, both from 0."""

    workload: WorkloadInfo
    in_queue: int
    in_local: int


# A callback that gets a workload and the quota that the workload got.
Charge = Callable[[WorkloadInfo, Usage], None]


class Queues:
    """The pending queues of all ClusterQueues. Names of LocalQueues and keys of workloads are `namespace/name`."""

    def __init__(self) -> None:
        self._charges: list[Charge] = []
        self._pending: dict[str, PendingQueue] = {}
        self._waiters: dict[str, Waiter] = {}
        self._usage: dict[str, float] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._stopped: set[str] = set()  # the names of stopped LocalQueues
        self._wakes: list[tuple[datetime, str]] = []  # an entry is void if the waiter's `until` differs
        self._untried: dict[str, None] = {}
        self._parked: dict[str, Parked] = {}  # by ClusterQueue: heads that claim quota or are blocked
        self._claims: dict[str, Usage] = {}  # as of the last `take_lifted`
        self._reparked: set[str] = set()  # the ClusterQueues whose parked heads changed since the last `take_lifted`
        self._freed: dict[Node, set[FlavorResource] | None] = {}  # requested flushes, by tree
        self._places_freed = False
        self._displaced = Displacements()

    # Changes in the cluster.

    def set_queue(self, spec: QueueSpec, *, active: bool = True) -> None:
        """Add or change a ClusterQueue.

        After that, the caller must call `flush` to wake the workloads that this could help.

        active: whether the queue can admit workloads: it is not stopped, and its flavors and checks exist.
        """
        pending = self._ensure_queue(spec.name)
        same = pending.spec is not None and replace(pending.spec, stop=spec.stop) == spec
        pending.spec, pending.closed = spec, None
        if spec.stop != "None" or not active:
            pending.closed = PendingReason("Suspended", f"ClusterQueue {spec.name} is inactive")
        if not same:
            selected: dict[str, bool] = {}
            for waiter in pending.waiters.values():
                namespace = waiter.workload.namespace
                if namespace not in selected:
                    selected[namespace] = self._is_selected(pending, namespace)
                waiter.obstacle = self._find_obstacle(waiter.workload, selected=selected[namespace])
            pending.refresh()
        self._update_head(pending)

    def remove_queue(self, name: str) -> None:
        """Remove a ClusterQueue. Its workloads wait until a ClusterQueue with the same name is created."""
        pending = self._ensure_queue(name)
        pending.spec = None
        pending.closed = PendingReason("Misconfigured", f"ClusterQueue {name} doesn't exist")
        pending.refresh()
        self._update_head(pending)
        self._drop_if_unused(pending)

    def stop_local(self, local_queue: str, *, stopped: bool = True) -> None:
        """Stop or resume a LocalQueue. For a deleted LocalQueue, call this with `stopped=False`."""
        if stopped == (local_queue in self._stopped):
            return
        (self._stopped.add if stopped else self._stopped.discard)(local_queue)
        for pending in self._pending.values():
            if local_queue in pending.local:
                (pending.stop if stopped else pending.resume)(local_queue)
                self._review(pending, [self._waiters[place.key] for place in pending.local[local_queue]])

    def set_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Set the labels of a namespace ({} if it was deleted), and review the workloads of that namespace."""
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
        """Set the past usage of a LocalQueue. ClusterQueues with admission fair sharing order their workloads by it.

        usage: infinite if the weight of the LocalQueue is 0.
        """
        if self._usage.get(local_queue, 0.0) == usage:
            return
        if usage:
            self._usage[local_queue] = usage
        else:
            del self._usage[local_queue]
        for pending in self._pending.values():
            if pending.orders_by_usage and local_queue in pending.local:
                pending.weigh(local_queue)
                self._update_head(pending)

    def add(self, workload: WorkloadInfo, *, until: datetime | None = None) -> None:
        """Add a waiting workload, or replace its earlier state.

        until: when the backoff after the workload's eviction ends (`requeueAt`); `NEVER` if the workload waits until
        the caller adds it again.
        """
        old = self._waiters.get(workload.key)
        if old is not None and self._is_same(old, workload, until) and old.workload.gated == workload.gated:
            old.workload = workload
            return
        if old is not None:
            self.remove(workload.key)
            if not self._is_same(old, workload, old.until):
                self._displaced.forget_workload(workload.key)
        self._displaced.came_back(workload.key, workload.queue)
        pending = self._ensure_queue(workload.queue)
        obstacle = self._find_obstacle(workload, selected=self._is_selected(pending, workload.namespace))
        # A new workload may have preempted before. Then its victims may still terminate, and their quota is for this
        # workload.
        sticky = old is None and workload.preempting
        waiter = self._waiters[workload.key] = Waiter(workload, place(workload, sticky=sticky), until, obstacle)
        if until is not None and until != NEVER:
            heappush(self._wakes, (until, workload.key))
        pending.insert(waiter)
        self._update_head(pending)

    def remove(self, key: str, *, usage: Usage | None = None) -> None:
        """Remove a workload that no longer waits.

        usage: the quota with which it was admitted; None if it was not admitted.
        """
        if (waiter := self._waiters.pop(key, None)) is not None:
            pending = self._pending[waiter.workload.queue]
            if pending.parked is not None and pending.parked.claim == usage:
                self._claims.pop(pending.name, None)  # the workload has what it claimed
            pending.take(waiter)
            self._update_head(pending)
            self._drop_if_unused(pending)
            if usage is not None and pending.orders_by_usage:
                for charge in self._charges:
                    charge(waiter.workload, usage)

    def on_charge(self, charge: Charge) -> None:
        """Register a callback for each admission in a ClusterQueue that orders its workloads by past usage.

        The callback calls `set_usage`, so that the next head is chosen by the new usage.
        """
        self._charges.append(charge)

    def flush(self, node: Node, freed: Iterable[FlavorResource] | None = None) -> None:
        """Wake the workloads in the node's tree that were found not to fit, because an event there could help them.

        freed: wake only workloads that might use some of this quota. None wakes all of them, and forgets which
        workloads were preempted for which others (`forgive`).
        """
        pending_flush = self._freed.get(node, set())
        self._freed[node] = None if freed is None or pending_flush is None else pending_flush.union(freed)
        if freed is None:
            self.forgive(node)

    def forgive(self, node: Node) -> None:
        """Forget which workloads were preempted for which others, in the node's tree.

        Call this when a workload ended or quota changed there. Workloads that were preempted before may then preempt
        others.
        """
        self._displaced.forget(queue.name for queue in node.root.queues())

    def forget(self, key: str) -> None:
        """Forget all records of a deleted workload, whether it was pending or not."""
        self.remove(key)
        self._displaced.forget_workload(key)

    def flush_places(self) -> None:
        """Wake the workloads of all trees that wait for room in topology domains."""
        self._places_freed = True

    def _flush(self) -> None:
        """Carry out the flushes that were requested since the last call, with one pass over each tree."""
        if self._places_freed:
            self._places_freed = False
            for waiting in self._pending.values():
                if waiting.wake_unplaced():
                    self._update_head(waiting)
        if not self._freed:
            return
        freed: dict[Node, set[FlavorResource] | None] = {}
        for node, some in self._freed.items():
            pending_flush = freed.setdefault(node.root, set())
            freed[node.root] = None if some is None or pending_flush is None else pending_flush | some
        self._freed.clear()
        for root, some in freed.items():
            for queue in root.queues():
                if (pending := self._pending.get(queue.name)) is not None and pending.wake(some):
                    self._update_head(pending)

    @property
    def usage(self) -> Mapping[str, float]:
        """The past usage of LocalQueues. A missing LocalQueue counts 0."""
        return self._usage

    def copy(self, names: Iterable[str]) -> "Queues":
        """Return a copy of these ClusterQueues and their waiting workloads, without the results of earlier tries."""
        copy = Queues()
        copy._labels, copy._stopped, copy._usage = self._labels.copy(), self._stopped.copy(), self._usage.copy()
        for name in names:
            if (pending := self._pending.get(name)) is not None and pending.spec is not None:
                copy.set_queue(pending.spec, active=pending.closed is None)
                for waiter in pending.waiters.values():
                    copy.add(waiter.workload, until=waiter.until)
        return copy

    def list_rules(self, names: Iterable[str]) -> list[object]:
        """Return the rules by which workloads of these ClusterQueues are tried and ordered, for comparison."""
        rules: list[object] = [self._labels.copy(), self._stopped.copy(), self._usage.copy()]
        for name in names:
            pending = self._pending.get(name)
            rules.append((pending.spec, pending.closed) if pending is not None else None)
        return rules

    def is_behind(self, workload: WorkloadInfo) -> bool:
        """Return whether a workload added now would certainly be tried after a waiting workload of its ClusterQueue."""
        pending = self._pending.get(workload.queue)
        return pending is not None and pending.is_behind(workload, place(workload))

    def is_after(self, workload: WorkloadInfo, other: WorkloadInfo) -> bool:
        """Return whether a workload is certainly tried after `other` of its queue, which need not wait any more."""
        pending = self._pending.get(workload.queue)
        return (
            pending is not None
            and workload.queue == other.queue
            and pending.is_after(workload, place(workload), other, place(other))
        )

    # Queries and decisions of admission.

    def advance(self, now: datetime) -> None:
        """Make the workloads whose backoff has ended by `now` eligible again."""
        while (at := self.next_wake) is not None and at <= now:
            waiter = self._waiters[heappop(self._wakes)[1]]
            waiter.until = None
            pending = self._pending[waiter.workload.queue]
            pending.put_into_class(waiter)
            self._update_head(pending)

    @property
    def next_wake(self) -> datetime | None:
        """The earliest end of a workload's backoff; None if no workload backs off."""
        while self._wakes:
            at, key = self._wakes[0]
            waiter = self._waiters.get(key)
            if waiter is not None and waiter.until == at:
                return at
            heappop(self._wakes)
        return None

    @property
    def untried(self) -> list[str]:
        """The ClusterQueues whose head has to be tried because something changed."""
        self._flush()
        return list(self._untried)

    @property
    def parked(self) -> Mapping[str, Parked]:
        """The parked heads, by ClusterQueue, that claim quota or wait for another workload's pods to be ready."""
        return self._parked

    def is_sticky(self, key: str) -> bool:
        """Return whether the workload stays the head of its queue until its victims have terminated."""
        waiter = self._waiters.get(key)
        return waiter is not None and not waiter.place.loose

    def head(self, queue: str) -> WorkloadInfo | None:
        """Return the workload of a ClusterQueue to try next; None if there is none."""
        self._flush()
        pending = self._pending.get(queue)
        return pending.head() if pending is not None else None

    def displace(self, workload: WorkloadInfo, victims: Iterable[WorkloadInfo]) -> None:
        """Record that the victims are evicted for this waiting workload."""
        self._displaced.record(workload.key, (victim.key for victim in victims))

    def protected_from(self, key: str) -> AbstractSet[str]:
        """Return the keys of the workloads that this pending workload must not preempt.

        It preempted them before, or was preempted for them. Without this rule, two workloads could preempt each other
        forever.
        """
        return self._displaced.protected_from(key)

    def set_aside(
        self, workload: WorkloadInfo, note: PendingReason, *, unplaced: bool = False, limited: bool = False
    ) -> None:
        """Mark the equivalence class of a workload as not fitting (inadmissible): none of its workloads is tried.

        note: why they wait.
        unplaced: whether they wait for room in topology domains.
        limited: whether a limit of their user was reached.
        """
        pending = self._pending[workload.queue]
        self._set_sticky(self._waiters[workload.key], sticky=False)
        equivalence = self._find_class(workload)
        equivalence.unplaced, equivalence.limited = unplaced, limited
        pending.set_aside(equivalence, note)
        self._update_head(pending)

    def park(
        self,
        workload: WorkloadInfo,
        note: PendingReason,
        claim: Usage,
        *,
        sticky: bool = False,
        blocker: str = "",
        unplaced: bool = False,
        victims: frozenset[str] = frozenset(),
        places: tuple[Places, ...] = (),
    ) -> None:
        """Keep a workload that cannot be admitted yet as the head of its ClusterQueue.

        note: why the workload waits.
        claim: the quota to reserve for it.
        sticky: whether it stays the head even if a workload of higher priority arrives.
        blocker: the key of the workload whose pods must become ready first; "" if there is none.
        unplaced: whether it waits for room in topology domains.
        victims: the keys of the evicted workloads for which it waits.
        places: the topology domains of its pods after the victims have terminated.
        """
        waiter, pending = self._waiters[workload.key], self._pending[workload.queue]
        self._set_sticky(waiter, sticky=sticky and not (pending.spec is not None and pending.spec.strict))
        equivalence = self._find_class(workload)
        equivalence.note, equivalence.unplaced = note, unplaced
        pending.parked, pending.tried = Parked(waiter.place, note, claim, blocker, victims, places), True
        self._update_head(pending)

    def retry(self, queue: str) -> None:
        """Let the head of a ClusterQueue be tried again."""
        if (pending := self._pending.get(queue)) is not None:
            pending.tried = False
            self._update_head(pending)

    def take_lifted(self) -> Mapping[str, frozenset[FlavorResource]]:
        """Return, by ClusterQueue, the quota that heads stopped claiming since the last call.

        Other workloads may now be able to use that quota.
        """
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

    # Queries of users.

    def why(self, key: str) -> PendingReason | None:
        """Return why a workload waits: an obstacle, its backoff, or the last decision about its equivalence class.

        Return None if the workload does not wait, or if nothing has been decided about it yet.
        """
        waiter = self._waiters.get(key)
        if waiter is None:
            return None
        if (closed := self._pending[waiter.workload.queue].closed) is not None:
            return closed
        if waiter.obstacle is not None:
            return waiter.obstacle
        return waiter.equivalence.note if waiter.equivalence is not None else HELD_BACK

    def workload(self, key: str) -> WorkloadInfo | None:
        """Return a waiting workload; None if it does not wait."""
        waiter = self._waiters.get(key)
        return waiter.workload if waiter is not None else None

    def list_waiting(self, queue: str) -> list[str]:
        """Return the keys of all workloads that wait in a ClusterQueue, in arbitrary order."""
        return list(pending.waiters) if (pending := self._pending.get(queue)) is not None else []

    def count_waiting(self, queue: str) -> int:
        """Return how many workloads wait in a ClusterQueue."""
        return len(pending.waiters) if (pending := self._pending.get(queue)) is not None else 0

    def position(self, key: str) -> Position | None:
        """Return the position of a workload; None if it does not wait, or its LocalQueue is stopped."""
        waiter = self._waiters.get(key)
        if waiter is None or waiter.workload.local_queue in self._stopped:
            return None
        return Position(waiter.workload, *self._pending[waiter.workload.queue].position(waiter))

    def yield_pending(self, queue: str, *, offset: int = 0, limit: int = 1000) -> Iterator[Position]:
        """Yield the workloads that wait in a ClusterQueue, in order, except those whose LocalQueue is stopped.

        Workloads that do not fit now are included.
        """
        if (pending := self._pending.get(queue)) is not None:
            for number, waiter_place in enumerate(pending.places(offset, limit), offset):
                waiter = self._waiters[waiter_place.key]
                in_local = pending.local[waiter.workload.local_queue].bisect_left(waiter_place)
                yield Position(waiter.workload, number, in_local)

    def pending_local(self, local_queue: str, queue: str, *, offset: int = 0, limit: int = 1000) -> Iterator[Position]:
        """Yield the workloads that wait in a LocalQueue of a ClusterQueue, in order; none while it is stopped."""
        pending = None if local_queue in self._stopped else self._pending.get(queue)
        places = pending.local.get(local_queue, ()) if pending is not None else ()
        for waiter_place in places.islice(offset, offset + limit) if places else ():
            yield Position(
                self._waiters[waiter_place.key].workload,
                *self._pending[queue].position(self._waiters[waiter_place.key]),
            )

    def counts(self, queue: str) -> tuple[int, int]:
        """Return how many pending workloads of a ClusterQueue are active (to be tried), and how many are inadmissible.

        These are the values of the metric `pending_workloads`. Workloads of a stopped LocalQueue do not count as
        pending.
        """
        self._flush()
        pending = self._pending.get(queue)
        if pending is None:
            return 0, 0
        return pending.active, len(pending.everyone) - pending.active

    def keys_of_pending(self, queue: str) -> Iterable[tuple[str, bool]]:
        """Return the key of each workload that `counts` counts, and whether the workload is active."""
        self._flush()
        pending = self._pending.get(queue)
        return pending.keys() if pending is not None else ()

    def counts_by_local(self, queue: str) -> dict[str, tuple[int, int]]:
        """Return how many workloads of each LocalQueue of a ClusterQueue are active, and how many are inadmissible.

        Stopped LocalQueues, and LocalQueues without pending workloads, are left out.
        """
        self._flush()
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
        """Return how many workloads wait in a LocalQueue of a ClusterQueue; 0 while the LocalQueue is stopped."""
        pending = self._pending.get(queue)
        return (
            len(pending.local.get(local_queue, ())) if pending is not None and local_queue not in self._stopped else 0
        )

    def classes(self, queue: str) -> tuple[int, int]:
        """Return how many equivalence classes of a ClusterQueue are active, and how many do not fit.

        These are the values of the metric `pending_scheduling_hashes`.
        """
        self._flush()
        pending = self._pending.get(queue)
        return pending.classes if pending is not None else (0, 0)

    def sum_requests(self, queue: str) -> dict[str, int]:
        """Return the total requests of a ClusterQueue's pending workloads, by resource.

        The result is empty if the ClusterQueue does not exist.
        Resources of the ClusterQueue that no workload requests count 0. Resources that the ClusterQueue does not have
        are included, except the number of pods.
        """
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

    def _ensure_queue(self, name: str) -> PendingQueue:
        if name not in self._pending:
            self._pending[name] = PendingQueue(name, self._usage, self._stopped)
        return self._pending[name]

    def _drop_if_unused(self, pending: PendingQueue) -> None:
        if pending.spec is None and not pending.waiters:
            del self._pending[pending.name]

    def _set_sticky(self, waiter: Waiter, *, sticky: bool) -> None:
        """Set whether a workload stays the head of its queue, and sort it again."""
        if waiter.place.loose == sticky:
            pending = self._pending[waiter.workload.queue]
            pending.take(waiter)
            waiter.place = place(waiter.workload, sticky=sticky)
            pending.insert(waiter)

    def _find_class(self, workload: WorkloadInfo) -> EquivalenceClass:
        equivalence = self._waiters[workload.key].equivalence
        assert equivalence is not None, f"{workload.key} was not to be tried"
        return equivalence

    def _is_selected(self, pending: PendingQueue, namespace: str) -> bool:
        matcher = pending.spec.namespaces if pending.spec is not None else None
        return matcher is not None and matcher.matches(self._labels.get(namespace, {}))

    def _find_obstacle(self, workload: WorkloadInfo, *, selected: bool) -> PendingReason | None:
        if workload.local_queue in self._stopped:
            return PendingReason("Suspended", f"LocalQueue {workload.local_queue.partition('/')[2]} is inactive")
        if not selected:
            return _NOT_SELECTED
        pending = self._pending.get(workload.queue)
        return find_foreigner(pending.spec, workload) if pending is not None and pending.spec is not None else None

    def _review(self, pending: PendingQueue, waiters: Iterable[Waiter]) -> None:
        """Find the obstacles of waiting workloads again, and put the workloads that may be tried into their classes.

        The others, which have an obstacle or are in their backoff, leave their class: they wait, but are not tried.
        """
        for waiter in waiters:
            selected = self._is_selected(pending, waiter.workload.namespace)
            waiter.obstacle = self._find_obstacle(waiter.workload, selected=selected)
            pending.take_out_of_class(waiter)
            pending.put_into_class(waiter)
        self._update_head(pending)

    def _is_same(self, old: Waiter, workload: WorkloadInfo, until: datetime | None) -> bool:
        """Return whether a workload's state is unchanged in all fields on which admission depends."""
        was = old.workload
        return (
            old.until == until
            and was.podsets == workload.podsets
            and place(was) == place(workload)
            and (was.queue, was.local_queue, was.blocks) == (workload.queue, workload.local_queue, workload.blocks)
            and was.owner == workload.owner
        )

    def _update_head(self, pending: PendingQueue) -> None:
        """Record whether the head of a ClusterQueue has to be tried, and the claims and blocker of a parked head."""
        head = pending.head()
        if pending.parked is not None and (head is None or head.key != pending.parked.place.key):
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
