"""What happens in queues, counted under Kueue's metric names.

Everything about a Workload is read off its changes as they are seen, of any origin; each is one step in the life of
one workload, so a change costs a few additions. Only what is in no object is told: `cycled`. How things stand is not
counted but asked for at a scrape (`gauges`).
"""

import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from importlib.metadata import version
from typing import Any, Generic, NamedTuple, TypeVar

import prometheus_client
from prometheus_client.metrics import MetricWrapperBase

from muster.api.conditions import find, find_true, is_true
from muster.api.config.types import Metrics
from muster.api.kueue import ClusterQueue, LocalQueue, Workload
from muster.api.kueue.names import (
    ADMITTED,
    EVICTED,
    FINISHED,
    NO_RESERVATION,
    PENDING_EVALUATION,
    PODS_READY,
    QUOTA_RESERVED,
    RECOVERED,
    REQUEUED,
)
from muster.api.meta import Condition
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.gauges import QueueGauges, gauges_of
from muster.controllers.series import LOCAL_LABELS, QUEUE_LABELS, ROLE, ROLE_LABEL, named
from muster.controllers.waits import gate_seconds
from muster.queueing.elastic.growth import grew
from muster.queueing.scheduling.cycle import Outcome
from muster.runtime.metrics import Gauges, Registry

M = TypeVar("M", bound=MetricWrapperBase)

# Upstream's: 1 s, then 2.5 s doubled up to some five hours.
_BUCKETS = (1.0, *(2.5 * 2**power for power in range(13)))

# Upstream's; dashboards know these labels. What has not been recorded is unknown.
_BUILD = {
    "git_version": f"v{version('muster-batch')}",
    "git_commit": "unknown",
    "build_date": "unknown",
    "go_version": f"python{platform.python_version()}",
    "compiler": platform.python_implementation(),
    "platform": f"{sys.platform}/{platform.machine()}",
}

_EVICTION = ("reason", "underlying_cause")
_PRIORITY = "priority_class"


class _Where(NamedTuple):
    """Whose numbers change.

    local: name and namespace of the LocalQueue, if it has numbers of its own.
    priority_class: of the workload; "" if it has none.
    """

    queue: str
    local: tuple[str, str] | None
    priority_class: str


class _Mirrored(Generic[M]):
    """A metric of ClusterQueues, and the same of LocalQueues."""

    def __init__(self, make: Callable[[str, str, tuple[str, ...]], M], name: str, text: str, *more: str) -> None:
        self._by_priority = _PRIORITY in more
        self._queues = make(named(name), text, (*QUEUE_LABELS, *more, *ROLE_LABEL))
        self._local = make(named(f"local_queue_{name}"), text, (*LOCAL_LABELS, *more, *ROLE_LABEL))
        # Looking a series up by its labels costs more than counting.
        self._series: dict[tuple[_Where, tuple[str, ...]], tuple[M, ...]] = {}

    def of(self, where: _Where, *more: str) -> tuple[M, ...]:
        """Both, for these labels."""
        found = self._series.get((where, more))
        if found is None:
            values = (*more, where.priority_class, *ROLE) if self._by_priority else (*more, *ROLE)
            found = (self._queues.labels(where.queue, *values),)
            if where.local is not None:
                found = (*found, self._local.labels(*where.local, *values))
            self._series[where, more] = found
        return found

    def forget_queue(self, name: str) -> None:
        """The ClusterQueue is gone."""
        self._series.clear()
        self._queues.remove_by_labels(dict(zip(QUEUE_LABELS, (name,), strict=True)))

    def forget_local(self, local: tuple[str, str]) -> None:
        """The LocalQueue is gone."""
        self._series.clear()
        self._local.remove_by_labels(dict(zip(LOCAL_LABELS, local, strict=True)))


_Counts = _Mirrored[prometheus_client.Counter]
_Times = _Mirrored[prometheus_client.Histogram]


class QueueingMetrics:
    """Counts from the moment it is made; what happened before was counted by its predecessor.

    by_usage: there is admission fair sharing.
    """

    def __init__(self, registry: Registry, cache: QueueingCache, settings: Metrics, *, by_usage: bool) -> None:
        self._cache = cache
        self._gauges = QueueGauges(cache, settings, by_usage=by_usage)
        self._skips: dict[str, int] = {}
        self._finished: Counter[str] = Counter()  # by LocalQueue
        self._unadmitted: Counter[tuple[str, str, str]] = Counter()  # by LocalQueue, reason and cause
        self._attempts = registry.counter(
            named("admission_attempts_total"),
            "Cycles that admitted a workload (success), or none",
            ("result", *ROLE_LABEL),
        )
        self._attempt_seconds = registry.histogram(
            named("admission_attempt_duration_seconds"), "How long such a cycle takes", ("result", *ROLE_LABEL)
        )
        self._preempted = registry.counter(
            named("preempted_workloads_total"),
            "Workloads preempted, by the ClusterQueue that they made room in",
            ("preempting_cluster_queue", "reason", *ROLE_LABEL),
        )
        self._recomputed = registry.counter(
            named("preemption_target_recomputations_total"),
            "Searches for other workloads to preempt, because those found go for another already, by what came of it",
            (*QUEUE_LABELS, "result", *ROLE_LABEL),
        )
        self._grown = registry.counter(
            named("replaced_workload_slices_total"),
            "Elastic workloads that were given more while they run, as upstream does by a slice that replaces another",
            (*QUEUE_LABELS, *ROLE_LABEL),
        )
        self._gates = gate_seconds(registry)
        self._below = registry.counter(
            named("cohort_subtree_admitted_workloads_total"),
            "Workloads admitted below the Cohort",
            ("cohort", _PRIORITY, *ROLE_LABEL),
        )
        self._below_known: set[str] = set()
        self._mirrored: list[_Counts | _Times] = []

        def counts(name: str, text: str, *more: str) -> _Counts:
            made = _Counts(registry.counter, name, text, *more)
            self._mirrored.append(made)
            return made

        def times(name: str, text: str, *more: str) -> _Times:
            made = _Times(partial(registry.histogram, buckets=_BUCKETS), name, text, *more)
            self._mirrored.append(made)
            return made

        self._reserved = counts("quota_reserved_workloads_total", "Workloads that got quota", _PRIORITY)
        self._admitted = counts("admitted_workloads_total", "Workloads that were admitted", _PRIORITY)
        self._ended = counts("finished_workloads_total", "Workloads that have finished", _PRIORITY)
        self._evicted = counts("evicted_workloads_total", "Workloads evicted", *_EVICTION, _PRIORITY)
        self._evicted_once = counts(
            "evicted_workloads_once_total", "Workloads evicted for the first time for that cause", *_EVICTION, _PRIORITY
        )
        self._reservation_wait = times(
            "quota_reserved_wait_time_seconds", "From the queueing to the reservation", _PRIORITY
        )
        self._admission_wait = times("admission_wait_time_seconds", "From the queueing to admission", _PRIORITY)
        self._checks_wait = times("admission_checks_wait_time_seconds", "From the reservation to admission", _PRIORITY)
        self._ready_wait = times("ready_wait_time_seconds", "From the queueing until the pods are ready", _PRIORITY)
        self._start_wait = times(
            "admitted_until_ready_wait_time_seconds",
            "From admission until the pods are ready for the first time",
            _PRIORITY,
        )
        self._ready_evicted = times(
            "pods_ready_to_evicted_time_seconds", "From the pods being ready to the eviction", *_EVICTION
        )
        self._latency = times(
            "workload_eviction_latency_seconds", "From the eviction until the quota is given back", "reason"
        )
        self._execution = times("execution_time_seconds", "From admission to the end of a finished workload", _PRIORITY)
        cache.workloads.on_change(self._changed)
        cache.cluster_queues.on_change(self._queue_changed)
        cache.cohorts.on_change(self._tree_changed)
        cache.local_queues.on_change(self._local_queue_changed)
        registry.scraped(self._scrape)

    def cycled(self, outcome: Outcome, seconds: float) -> None:
        """Admission has looked at some workloads; so long it took."""
        if not outcome.looks:
            return
        result = "success" if outcome.admitted else "inadmissible"
        self._attempts.labels(result, *ROLE).inc()
        self._attempt_seconds.labels(result, *ROLE).observe(seconds)
        self._skips = outcome.skips
        for queue, what in outcome.recomputed:
            self._recomputed.labels(queue, what, *ROLE).inc()
        for decision in outcome.preemptions:
            for victim in decision.victims:
                if not victim.workload.evicted:
                    self._preempted.labels(decision.workload.queue, victim.reason, *ROLE).inc()

    # What is seen.

    def _changed(self, old: Workload | None, new: Workload | None) -> None:
        self._count(old, -1)
        self._count(new, 1)
        if old is None or new is None:
            return
        if new.status.admission is not None and grew(old, new):
            self._grown.labels(new.status.admission.cluster_queue, *ROLE).inc()
        if old.status.conditions == new.status.conditions:
            return
        admission = new.status.admission or old.status.admission
        if admission is None:
            return
        ref = new.spec.priority_class_ref
        where = _Where(admission.cluster_queue, self._local(new), ref.name if ref is not None else "")
        self._got(old, new, where)
        self._ran(old, new, where)
        self._lost(old, new, where)

    def _count(self, workload: Workload | None, one: int) -> None:
        """What stands still is counted as it comes and goes, too: there may be many of them."""
        if workload is None:
            return
        local = f"{workload.metadata.namespace}/{workload.spec.queue_name}"
        if is_true(workload.status.conditions, FINISHED):
            _add(self._finished, local, one)
        elif (why := _why_not_admitted(workload)) is not None:
            _add(self._unadmitted, (local, *why), one)

    def _got(self, old: Workload, new: Workload, where: _Where) -> None:
        """Quota, admission."""
        if (reserved := _turned(old, new, QUOTA_RESERVED)) is not None:
            _inc(self._reserved, where)
            _took(self._reservation_wait, where, _queued(new), reserved)
        if (admitted := _turned(old, new, ADMITTED)) is not None:
            _inc(self._admitted, where)
            _took(self._admission_wait, where, _queued(new), admitted)
            _took(self._checks_wait, where, _since(new, QUOTA_RESERVED), admitted)
            node = self._cache.tree.queues.get(where.queue)
            for above in node.ancestors() if node is not None else ():
                self._below_known.add(above.name)
                self._below.labels(above.name, where.priority_class, *ROLE).inc()

    def _ran(self, old: Workload, new: Workload, where: _Where) -> None:
        """Pods that are ready, a job that has ended."""
        ready = _turned(old, new, PODS_READY)
        if ready is not None and ready.reason != RECOVERED:
            _took(self._ready_wait, where, _queued(new), ready)
            _took(self._start_wait, where, _since(new, ADMITTED), ready)
        if (finished := _turned(old, new, FINISHED)) is not None:
            _inc(self._ended, where)
            _took(self._execution, where, _since(new, ADMITTED), finished)

    def _lost(self, old: Workload, new: Workload, where: _Where) -> None:
        """An eviction, and its end."""
        evicted = find_true(new.status.conditions, EVICTED)
        if evicted is None:
            return
        for (reason, cause), times in _evictions(new).items():
            if times > _evictions(old).get((reason, cause), 0):
                _inc(self._evicted, where, reason, cause)
                _took(self._ready_evicted, where, _since(old, PODS_READY), evicted, reason, cause)
                if times == 1:
                    _inc(self._evicted_once, where, reason, cause)
        released = find(new.status.conditions, QUOTA_RESERVED)
        if released is not None and released.status == "False" and is_true(old.status.conditions, QUOTA_RESERVED):
            _took(self._latency, where, evicted.last_transition_time, released, evicted.reason)

    def _local(self, workload: Workload) -> tuple[str, str] | None:
        name, namespace = workload.spec.queue_name, workload.metadata.namespace
        return (name, namespace) if self._gauges.is_measured(f"{namespace}/{name}") else None

    def _tree_changed(self, _old: object, _new: object) -> None:
        """Series go with their Cohort, also with one that only its members named."""
        for gone in self._below_known - self._cache.tree.cohorts.keys():
            self._below_known.discard(gone)
            self._below.remove_by_labels({"cohort": gone})

    def _queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        self._tree_changed(old, new)
        if old is not None and new is None:
            self._preempted.remove_by_labels({"preempting_cluster_queue": old.metadata.name})
            for series in (self._recomputed, self._grown, self._gates):
                series.remove_by_labels({"cluster_queue": old.metadata.name})
            for metric in self._mirrored:
                metric.forget_queue(old.metadata.name)

    def _local_queue_changed(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        if old is not None and new is None:
            for metric in self._mirrored:
                metric.forget_local((old.metadata.name, old.metadata.namespace))

    # What stands still.

    def _scrape(self) -> Iterator[Gauges]:
        yield Gauges(named("build_info"), "Which build this is", tuple(_BUILD), ((tuple(_BUILD.values()), 1.0),))
        yield from self._gauges()
        yield gauges_of(
            "admission_cycle_preemption_skips",
            "Workloads that could have preempted in the last cycle if others had not come first",
            (((name,), self._skips.get(name, 0)) for name in self._cache.tree.queues),
            labels=QUEUE_LABELS,
        )
        yield gauges_of(
            "finished_workloads",
            "Workloads that have finished and are kept",
            self._by_queue(((local,), number) for local, number in self._finished.items()),
            labels=QUEUE_LABELS,
        )
        yield gauges_of(
            "unadmitted_workloads",
            "Workloads that are not admitted, and why",
            self._by_queue(self._unadmitted.items()),
            labels=(*QUEUE_LABELS, *_EVICTION),
        )
        yield gauges_of(
            "local_queue_finished_workloads",
            "Workloads that have finished and are kept",
            (((queue.metadata.name, queue.metadata.namespace), self._finished[key]) for key, queue in self._measured()),
            labels=LOCAL_LABELS,
        )
        yield gauges_of(
            "local_queue_unadmitted_workloads",
            "Workloads that are not admitted, and why",
            (
                ((queue.metadata.name, queue.metadata.namespace, queue.spec.cluster_queue, *why), number)
                for (local, *why), number in self._unadmitted.items()
                if self._gauges.is_measured(local) and (queue := self._cache.local_queues.get(local)) is not None
            ),
            labels=(*LOCAL_LABELS, *QUEUE_LABELS, *_EVICTION),
        )

    def _measured(self) -> Iterator[tuple[str, LocalQueue]]:
        for queue in self._cache.local_queues.all():
            if self._gauges.is_measured(key := f"{queue.metadata.namespace}/{queue.metadata.name}"):
                yield key, queue

    def _by_queue(self, counts: Iterable[tuple[tuple[str, ...], int]]) -> Iterable[tuple[tuple[str, ...], float]]:
        """Counts of LocalQueues, summed up by their ClusterQueues; those that lead nowhere do not count."""
        total: Counter[tuple[str, ...]] = Counter()
        for (local, *more), number in counts:
            if (queue := self._cache.local_queues.get(local)) is not None:
                total[(queue.spec.cluster_queue, *more)] += number
        return total.items()


def _inc(counts: _Counts, where: _Where, *more: str) -> None:
    for counter in counts.of(where, *more):
        counter.inc()


def _took(times: _Times, where: _Where, start: datetime | None, end: Condition, *more: str) -> None:
    """Nothing if one of the moments is unknown."""
    if start is not None and end.last_transition_time is not None:
        for histogram in times.of(where, *more):
            histogram.observe(max(0.0, (end.last_transition_time - start).total_seconds()))


def _turned(old: Workload, new: Workload, type: str) -> Condition | None:
    """The condition, if it is True now and was not."""
    return None if is_true(old.status.conditions, type) else find_true(new.status.conditions, type)


def _since(workload: Workload, type: str) -> datetime | None:
    """When the condition became True, if it is."""
    condition = find_true(workload.status.conditions, type)
    return condition.last_transition_time if condition is not None else None


def _queued(workload: Workload) -> datetime | None:
    """When it came to its queue, or came back."""
    return _since(workload, REQUEUED) or workload.metadata.creation_timestamp


def _evictions(workload: Workload) -> dict[tuple[str, str], int]:
    stats = workload.status.scheduling_stats
    return {(one.reason, one.underlying_cause): one.count for one in stats.evictions} if stats is not None else {}


def _why_not_admitted(workload: Workload) -> tuple[str, str] | None:
    """The reasons of Admitted and QuotaReserved ("" if it has quota); None if it is admitted."""
    conditions = workload.status.conditions
    if is_true(conditions, ADMITTED) or workload.metadata.deletion_timestamp is not None:
        return None
    admitted, reserved = find(conditions, ADMITTED), find(conditions, QUOTA_RESERVED)
    reason = admitted.reason if admitted is not None else NO_RESERVATION
    if reserved is None:
        return reason, PENDING_EVALUATION
    return reason, "" if reserved.status == "True" else reserved.reason


def _add(counts: "Counter[Any]", key: Any, number: int) -> None:
    counts[key] += number
    if not counts[key]:
        del counts[key]
