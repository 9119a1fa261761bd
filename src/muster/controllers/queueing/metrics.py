"""What happens in queues, counted under Kueue's metric names.

Everything about a Workload is read off its changes as they are seen, whoever made them; each is one step in the life of
one workload, so a change costs a few additions. Only what is in no object is told: `cycled`. How things stand is not
counted but asked for at a scrape (`gauges`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import prometheus_client
from prometheus_client.metrics import MetricWrapperBase

from muster.api.config.types import Metrics
from muster.api.kueue import ClusterQueue, LocalQueue, Workload
from muster.api.kueue.names import (
    ADMITTED,
    EVICTED,
    FINISHED,
    PENDING_EVALUATION,
    PODS_READY,
    QUOTA_RESERVED,
    RECOVERED,
    REQUEUED,
)
from muster.api.meta import Condition
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.gauges import (
    LOCAL_LABELS,
    QUEUE_LABELS,
    ROLE,
    ROLE_LABEL,
    QueueGauges,
    gauges_of,
    named,
)
from muster.queueing.conditions import find, find_true, is_true
from muster.queueing.cycle import Outcome
from muster.runtime.metrics import Gauges, Registry

M = TypeVar("M", bound=MetricWrapperBase)

# Upstream's: 1 s, then 2.5 s doubled up to some five hours.
_BUCKETS = (1.0, *(2.5 * 2**power for power in range(13)))

_EVICTION = ("reason", "underlying_cause")


class _Where(NamedTuple):
    """Whose numbers change. local: name and namespace of the LocalQueue, if it has numbers of its own."""

    queue: str
    local: tuple[str, str] | None


class _Mirrored(Generic[M]):
    """A metric of ClusterQueues, and the same of LocalQueues."""

    def __init__(self, make: Callable[[str, str, tuple[str, ...]], M], name: str, text: str, *more: str) -> None:
        self._queues = make(named(name), text, (*QUEUE_LABELS, *more, *ROLE_LABEL))
        self._local = make(named(f"local_queue_{name}"), text, (*LOCAL_LABELS, *more, *ROLE_LABEL))
        # Looking a series up by its labels costs more than counting.
        self._series: dict[tuple[_Where, tuple[str, ...]], tuple[M, ...]] = {}

    def of(self, where: _Where, *more: str) -> tuple[M, ...]:
        """Both, for these labels."""
        found = self._series.get((where, more))
        if found is None:
            found = (self._queues.labels(where.queue, *more, *ROLE),)
            if where.local is not None:
                found = (*found, self._local.labels(*where.local, *more, *ROLE))
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
    """Counts from the moment it is made; what happened before has been counted by somebody else."""

    def __init__(self, registry: Registry, cache: QueueingCache, settings: Metrics) -> None:
        self._cache = cache
        self._gauges = QueueGauges(cache, settings)
        self._skips: dict[str, int] = {}
        self._finished: Counter[str] = Counter()  # by LocalQueue
        self._unadmitted: Counter[tuple[str, str]] = Counter()  # by LocalQueue and reason
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
        self._below = registry.counter(
            named("cohort_subtree_admitted_workloads_total"),
            "Workloads admitted below the Cohort",
            ("cohort", *ROLE_LABEL),
        )
        self._mirrored: list[_Counts | _Times] = []

        def counts(name: str, text: str, *more: str) -> _Counts:
            made = _Counts(registry.counter, name, text, *more)
            self._mirrored.append(made)
            return made

        def times(name: str, text: str, *more: str) -> _Times:
            made = _Times(partial(registry.histogram, buckets=_BUCKETS), name, text, *more)
            self._mirrored.append(made)
            return made

        self._reserved = counts("quota_reserved_workloads_total", "Workloads that got quota")
        self._admitted = counts("admitted_workloads_total", "Workloads that were admitted")
        self._ended = counts("finished_workloads_total", "Workloads that have finished")
        self._evicted = counts("evicted_workloads_total", "Workloads evicted", *_EVICTION)
        self._evicted_once = counts(
            "evicted_workloads_once_total", "Workloads evicted for the first time for that cause", *_EVICTION
        )
        self._reservation_wait = times("quota_reserved_wait_time_seconds", "From the queueing to the reservation")
        self._admission_wait = times("admission_wait_time_seconds", "From the queueing to admission")
        self._checks_wait = times("admission_checks_wait_time_seconds", "From the reservation to admission")
        self._ready_wait = times("ready_wait_time_seconds", "From the queueing until the pods are ready")
        self._start_wait = times(
            "admitted_until_ready_wait_time_seconds", "From admission until the pods are ready for the first time"
        )
        self._ready_evicted = times(
            "pods_ready_to_evicted_time_seconds", "From the pods being ready to the eviction", *_EVICTION
        )
        self._latency = times(
            "workload_eviction_latency_seconds", "From the eviction until the quota is given back", "reason"
        )
        self._execution = times("execution_time_seconds", "From admission to the end of a finished workload")
        cache.workloads.on_change(self._changed)
        cache.cluster_queues.on_change(self._queue_changed)
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
        for decision in outcome.preemptions:
            for victim in decision.victims:
                if not victim.workload.evicted:
                    self._preempted.labels(decision.workload.queue, victim.reason, *ROLE).inc()

    # What is seen.

    def _changed(self, old: Workload | None, new: Workload | None) -> None:
        self._count(old, -1)
        self._count(new, 1)
        if old is None or new is None or old.status.conditions == new.status.conditions:
            return
        admission = new.status.admission or old.status.admission
        if admission is None:
            return
        where = _Where(admission.cluster_queue, self._local(new))
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
        elif (reason := _why_not_admitted(workload)) is not None:
            _add(self._unadmitted, (local, reason), one)

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
                self._below.labels(above.name, *ROLE).inc()

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

    def _queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        if old is not None and new is None:
            self._preempted.remove_by_labels({"preempting_cluster_queue": old.metadata.name})
            for metric in self._mirrored:
                metric.forget_queue(old.metadata.name)

    def _local_queue_changed(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        if old is not None and new is None:
            for metric in self._mirrored:
                metric.forget_local((old.metadata.name, old.metadata.namespace))

    # What stands still.

    def _scrape(self) -> Iterator[Gauges]:
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
            labels=(*QUEUE_LABELS, "reason"),
        )

    def _by_queue(self, counts: Iterable[tuple[tuple[str, ...], int]]) -> Iterable[tuple[tuple[str, ...], float]]:
        """Counts of LocalQueues, summed up by their ClusterQueues; those that lead nowhere count for ""."""
        total: Counter[tuple[str, ...]] = Counter()
        for (local, *more), number in counts:
            queue = self._cache.local_queues.get(local)
            total[(queue.spec.cluster_queue if queue is not None else "", *more)] += number
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


def _why_not_admitted(workload: Workload) -> str | None:
    """The reason of the first condition that is not True on the way; None if it is admitted."""
    for type in (QUOTA_RESERVED, ADMITTED):
        condition = find(workload.status.conditions, type)
        if condition is None or condition.status != "True":
            return condition.reason if condition is not None else PENDING_EVALUATION
    return None


def _add(counts: "Counter[Any]", key: Any, number: int) -> None:
    counts[key] += number
    if not counts[key]:
        del counts[key]
