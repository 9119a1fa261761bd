"""Count the events in queues under Kueue's metric names.

All numbers about a Workload come from its observed changes, whichever client made them. Each change is one step in the
life of one workload, so counting it costs a few additions. Only data that no object contains are reported by a call:
`on_cycle`. The current state is not counted but read at each scrape (`gauges`).
"""

import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from muster.api.conditions import find, find_true, is_true
from muster.api.config import Configuration
from muster.api.kueue import ClusterQueue, Cohort, LocalQueue, Workload
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
from muster.api.managed.variants import is_variant
from muster.api.meta import Condition, ObjectMeta
from muster.api.ours.release import VERSION
from muster.controllers.customlabels import CustomLabels, Kind
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.gauges import QueueGauges, gauges_of
from muster.controllers.series import LOCAL_LABELS, QUEUE_LABELS, ROLE, ROLE_LABEL, name_metric
from muster.controllers.waits import gate_seconds
from muster.queueing.elastic.growth import has_grown
from muster.queueing.scheduling.cycle import CycleOutcome
from muster.runtime.metrics import Gauges, Registry
from muster.runtime.tallies import Series, Spread, Tally

S = TypeVar("S")

# Upstream's buckets: 1 s, then 2.5 s, doubled up to about three hours.
_BUCKETS = (1.0, *(2.5 * 2**power for power in range(13)))

# The default buckets of prometheus_client, from 5 ms to 10 s.
_CYCLE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

# Upstream's labels, on which dashboards rely. Values that are not recorded are "unknown".
_BUILD = {
    "git_version": f"v{VERSION}",
    "git_commit": "unknown",
    "build_date": "unknown",
    "go_version": f"python{platform.python_version()}",
    "compiler": platform.python_implementation(),
    "platform": f"{sys.platform}/{platform.machine()}",
}

_EVICTION = ("reason", "underlying_cause")
_PRIORITY = "priority_class"
# The metrics of LocalQueues that have labels from workloads, as in upstream.
_BY_WORKLOAD = ("admitted_workloads_total", "admission_wait_time_seconds")


class _SeriesKey(NamedTuple):
    """The label values that select the series of a change.

    queue: the name of the ClusterQueue.
    local: the name and namespace of the LocalQueue; None if it has no metrics of its own.
    priority_class: the priority class of the workload; "" if it has none.
    workload: the values of the labels that some metrics copy from the workload.
    """

    queue: str
    local: tuple[str, str] | None
    priority_class: str
    workload: tuple[str, ...] = ()


class _MirroredMetric(Generic[S]):
    """A metric of ClusterQueues, and the same metric of LocalQueues.

    by_workload: whether the metric of LocalQueues also has labels from workloads.
    """

    def __init__(
        self,
        make: Callable[[str, str, tuple[str, ...]], Series[S]],
        custom: CustomLabels,
        name: str,
        text: str,
        *more: str,
        by_workload: bool = False,
    ) -> None:
        self._by_priority = _PRIORITY in more
        self._custom = custom
        self._by_workload = by_workload
        kinds: tuple[Kind, ...] = ("LocalQueue", "Workload") if by_workload else ("LocalQueue",)
        self._queues = make(name_metric(name), text, (*QUEUE_LABELS, *more, *ROLE_LABEL, *custom.names("ClusterQueue")))
        self._local = make(
            name_metric(f"local_queue_{name}"), text, (*LOCAL_LABELS, *more, *ROLE_LABEL, *custom.names(*kinds))
        )
        # Finding a series by its labels costs more than counting.
        self._series: dict[tuple[_SeriesKey, tuple[str, ...]], tuple[S, ...]] = {}

    def of(self, key: _SeriesKey, *more: str) -> tuple[S, ...]:
        """Return the series for these labels: the ClusterQueue's and, if it has metrics, the LocalQueue's."""
        series = self._series.get((key, more))
        if series is None:
            values = (*more, key.priority_class, *ROLE) if self._by_priority else (*more, *ROLE)
            series = (self._queues.labels(key.queue, *values, *self._custom.values("ClusterQueue", key.queue)),)
            if key.local is not None:
                name, namespace = key.local
                custom = self._custom.values("LocalQueue", f"{namespace}/{name}")
                workload = key.workload if self._by_workload else ()
                series = (*series, self._local.labels(name, namespace, *values, *custom, *workload))
            self._series[key, more] = series
        return series

    def forget_queue(self, name: str) -> None:
        """Remove the series of a ClusterQueue."""
        self._series.clear()
        self._queues.remove_by_labels(dict(zip(QUEUE_LABELS, (name,), strict=True)))

    def forget_local(self, local: tuple[str, str]) -> None:
        """Remove the series of a LocalQueue."""
        self._series.clear()
        self._local.remove_by_labels(dict(zip(LOCAL_LABELS, local, strict=True)))


_Counts = _MirroredMetric[Tally]
_Times = _MirroredMetric[Spread]


class QueueingMetrics:
    """The counters of queueing since this process became leader; the previous leader counted earlier events.

    by_usage: whether admission fair sharing is on.
    """

    def __init__(
        self, registry: Registry, cache: QueueingCache, configuration: Configuration, *, by_usage: bool
    ) -> None:
        self._cache = cache
        self._custom = custom = CustomLabels(configuration.custom_labels, self._find_meta)
        self._gauges = QueueGauges(cache, configuration, custom, by_usage=by_usage)
        self._counts_cohorts = configuration.features.is_enabled("MetricsForCohorts")
        self._skips: dict[str, int] = {}
        self._finished: Counter[str] = Counter()  # by LocalQueue
        self._unadmitted: Counter[tuple[str, str, str]] = Counter()  # by LocalQueue, reason and cause
        self._attempts = registry.counter(
            name_metric("admission_attempts_total"),
            "Admission cycles, by result: success if a workload was admitted, else inadmissible",
            ("result", *ROLE_LABEL),
        )
        self._attempt_seconds = registry.histogram(
            name_metric("admission_attempt_duration_seconds"),
            "The duration of an admission cycle",
            ("result", *ROLE_LABEL),
            _CYCLE_BUCKETS,
        )
        self._preempted = registry.counter(
            name_metric("preempted_workloads_total"),
            "Workloads preempted, by the ClusterQueue of the preemptor",
            ("preempting_cluster_queue", "reason", *ROLE_LABEL, *custom.names("ClusterQueue")),
        )
        self._recomputed = registry.counter(
            name_metric("preemption_target_recomputations_total"),
            "New searches for workloads to preempt, because another workload preempted the first ones, by result",
            (*QUEUE_LABELS, "result", *ROLE_LABEL, *custom.names("ClusterQueue")),
        )
        self._grown = registry.counter(
            name_metric("replaced_workload_slices_total"),
            "Running elastic workloads that grew, which upstream does by a slice that replaces another",
            (*QUEUE_LABELS, *ROLE_LABEL, *custom.names("ClusterQueue")),
        )
        self._gates = gate_seconds(registry, custom)
        self._below = registry.counter(
            name_metric("cohort_subtree_admitted_workloads_total"),
            "Workloads admitted below the Cohort",
            ("cohort", _PRIORITY, *ROLE_LABEL, *custom.names("Cohort")),
        )
        self._below_known: set[str] = set()
        self._mirrored: list[_Counts | _Times] = []

        def counts(name: str, text: str, *more: str) -> _Counts:
            metric = _Counts(registry.counter, custom, name, text, *more, by_workload=name in _BY_WORKLOAD)
            self._mirrored.append(metric)
            return metric

        def times(name: str, text: str, *more: str) -> _Times:
            make = partial(registry.histogram, bounds=_BUCKETS)
            metric = _Times(make, custom, name, text, *more, by_workload=name in _BY_WORKLOAD)
            self._mirrored.append(metric)
            return metric

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
        cache.workloads.on_change(self._on_workload_changed)
        cache.cluster_queues.on_change(self._on_cluster_queue_changed)
        cache.cohorts.on_change(self._on_cohort_changed)
        cache.local_queues.on_change(self._on_local_queue_changed)
        registry.add_computed(lambda: map(custom.extend, self._scrape()))

    def on_cycle(self, outcome: CycleOutcome, seconds: float) -> None:
        """Count an admission cycle that tried a workload: its result, duration, preemptions and recomputations."""
        if not outcome.nominations:
            return
        result = "success" if outcome.admitted else "inadmissible"
        self._attempts.labels(result, *ROLE).inc()
        self._attempt_seconds.labels(result, *ROLE).observe(seconds)
        self._skips = outcome.skips
        for queue, recomputation in outcome.recomputed:
            self._recomputed.labels(queue, recomputation, *ROLE, *self._custom.values("ClusterQueue", queue)).inc()
        for decision in outcome.preemptions:
            for victim in decision.victims:
                if not (victim.workload.evicted or victim.migrates):
                    queue = decision.workload.queue
                    custom = self._custom.values("ClusterQueue", queue)
                    self._preempted.labels(queue, victim.reason, *ROLE, *custom).inc()

    # Observed changes.

    def _on_workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        latest = new if new is not None else old
        if latest is not None and is_variant(latest):
            return  # only the variant's parent is counted
        self._count(old, -1)
        self._count(new, 1)
        if old is None or new is None:
            return
        if new.status.admission is not None and has_grown(old, new):
            queue = new.status.admission.cluster_queue
            self._grown.labels(queue, *ROLE, *self._custom.values("ClusterQueue", queue)).inc()
        if old.status.conditions == new.status.conditions:
            return
        admission = new.status.admission or old.status.admission
        if admission is None:
            return
        ref = new.spec.priority_class_ref
        workload = self._custom.values_of("Workload", new.metadata)
        key = _SeriesKey(
            admission.cluster_queue, self._find_measured_queue(new), ref.name if ref is not None else "", workload
        )
        self._count_gains(old, new, key)
        self._count_run(old, new, key)
        self._count_losses(old, new, key)

    def _count(self, workload: Workload | None, sign: int) -> None:
        """Add a workload to the numbers of finished or unadmitted workloads; with sign -1, subtract it.

        There may be too many workloads to count them at each scrape.
        """
        if workload is None:
            return
        local = f"{workload.metadata.namespace}/{workload.spec.queue_name}"
        if is_true(workload.status.conditions, FINISHED):
            _add(self._finished, local, sign)
        elif (why := _explain_unadmitted(workload)) is not None:
            _add(self._unadmitted, (local, *why), sign)

    def _count_gains(self, old: Workload, new: Workload, key: _SeriesKey) -> None:
        """Count a reservation and an admission that an update contains, and how long the workload waited for each."""
        if (reserved := _find_turned(old, new, QUOTA_RESERVED)) is not None:
            _increment(self._reserved, key)
            _observe(self._reservation_wait, key, _find_queued(new), reserved)
        if (admitted := _find_turned(old, new, ADMITTED)) is not None:
            _increment(self._admitted, key)
            _observe(self._admission_wait, key, _find_queued(new), admitted)
            _observe(self._checks_wait, key, _find_start(new, QUOTA_RESERVED), admitted)
            node = self._cache.tree.queues.get(key.queue)
            for above in node.ancestors() if node is not None and self._counts_cohorts else ():
                self._below_known.add(above.name)
                custom = self._custom.values("Cohort", above.name)
                self._below.labels(above.name, key.priority_class, *ROLE, *custom).inc()

    def _count_run(self, old: Workload, new: Workload, key: _SeriesKey) -> None:
        """Count the readiness of pods and the end of a job that an update contains, and how long each took."""
        ready = _find_turned(old, new, PODS_READY)
        if ready is not None and ready.reason != RECOVERED:
            _observe(self._ready_wait, key, _find_queued(new), ready)
            _observe(self._start_wait, key, _find_start(new, ADMITTED), ready)
        if (finished := _find_turned(old, new, FINISHED)) is not None:
            _increment(self._ended, key)
            _observe(self._execution, key, _find_start(new, ADMITTED), finished)

    def _count_losses(self, old: Workload, new: Workload, key: _SeriesKey) -> None:
        """Count the evictions that an update contains, and how long the workload took to release its quota."""
        evicted = find_true(new.status.conditions, EVICTED)
        if evicted is None:
            return
        for (reason, cause), times in _count_evictions(new).items():
            if times > _count_evictions(old).get((reason, cause), 0):
                _increment(self._evicted, key, reason, cause)
                _observe(self._ready_evicted, key, _find_start(old, PODS_READY), evicted, reason, cause)
                if times == 1:
                    _increment(self._evicted_once, key, reason, cause)
        released = find(new.status.conditions, QUOTA_RESERVED)
        if released is not None and released.status == "False" and is_true(old.status.conditions, QUOTA_RESERVED):
            _observe(self._latency, key, evicted.last_transition_time, released, evicted.reason)

    def _find_measured_queue(self, workload: Workload) -> tuple[str, str] | None:
        name, namespace = workload.spec.queue_name, workload.metadata.namespace
        return (name, namespace) if self._gauges.is_measured(f"{namespace}/{name}") else None

    def _find_meta(self, kind: Kind, name: str) -> ObjectMeta | None:
        """Return the metadata of an object by its kind and name; None if it is deleted."""
        if kind == "Workload":
            obj: ClusterQueue | LocalQueue | Cohort | Workload | None = self._cache.workloads.get(name)
        elif kind == "LocalQueue":
            obj = self._cache.local_queues.get(name)
        else:
            obj = (self._cache.cluster_queues if kind == "ClusterQueue" else self._cache.cohorts).get(name)
        return obj.metadata if obj is not None else None

    def _is_relabelled(self, kind: Kind, old: ObjectMeta | None, new: ObjectMeta | None) -> bool:
        """Return whether the metric labels of an object changed, so that its series start again, as in upstream."""
        return old is not None and self._custom.values_of(kind, old) != self._custom.values_of(kind, new)

    def _on_cohort_changed(self, old: Cohort | None, new: Cohort | None) -> None:
        """Remove the series of a deleted Cohort, even if queues still name it.

        A new Cohort with the same name starts new series.
        """
        if new is not None:
            self._gauges.deleted.discard(new.metadata.name)
        elif old is not None:
            self._gauges.deleted.add(old.metadata.name)
        if old is not None and (new is None or self._is_relabelled("Cohort", old.metadata, new.metadata)):
            self._below.remove_by_labels({"cohort": old.metadata.name})
        self._on_tree_changed(old, new)

    def _on_tree_changed(self, _old: object, _new: object) -> None:
        """Remove the series of a Cohort that existed only because members named it, after the last member is gone."""
        self._gauges.deleted &= self._cache.tree.cohorts.keys()
        for name in self._below_known - self._cache.tree.cohorts.keys():
            self._below_known.discard(name)
            self._below.remove_by_labels({"cohort": name})

    def _on_cluster_queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        self._on_tree_changed(old, new)
        if old is not None and (new is None or self._is_relabelled("ClusterQueue", old.metadata, new.metadata)):
            self._preempted.remove_by_labels({"preempting_cluster_queue": old.metadata.name})
            for series in (self._recomputed, self._grown, self._gates):
                series.remove_by_labels({"cluster_queue": old.metadata.name})
            for metric in self._mirrored:
                metric.forget_queue(old.metadata.name)

    def _on_local_queue_changed(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        if old is not None and (new is None or self._is_relabelled("LocalQueue", old.metadata, new.metadata)):
            for metric in self._mirrored:
                metric.forget_local((old.metadata.name, old.metadata.namespace))

    # State at a scrape.

    def _scrape(self) -> Iterator[Gauges]:
        """Yield the gauges that are computed at each scrape."""
        yield Gauges(name_metric("build_info"), "The build of Muster", tuple(_BUILD), ((tuple(_BUILD.values()), 1.0),))
        yield from self._gauges()
        yield gauges_of(
            "admission_cycle_preemption_skips",
            "Workloads that did not preempt in the last cycle only because others came first",
            (((name,), self._skips.get(name, 0)) for name in self._cache.tree.queues),
            labels=QUEUE_LABELS,
        )
        yield gauges_of(
            "finished_workloads",
            "Workloads that have finished and are kept",
            self._sum_by_queue(((local,), number) for local, number in self._finished.items()),
            labels=QUEUE_LABELS,
        )
        yield gauges_of(
            "unadmitted_workloads",
            "Workloads that are not admitted, and why",
            self._sum_by_queue(self._unadmitted.items()),
            labels=(*QUEUE_LABELS, *_EVICTION),
        )
        yield gauges_of(
            "local_queue_finished_workloads",
            "Workloads that have finished and are kept",
            (
                ((queue.metadata.name, queue.metadata.namespace), self._finished[key])
                for key, queue in self._list_measured()
            ),
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

    def _list_measured(self) -> Iterator[tuple[str, LocalQueue]]:
        for queue in self._cache.local_queues.all():
            if self._gauges.is_measured(key := f"{queue.metadata.namespace}/{queue.metadata.name}"):
                yield key, queue

    def _sum_by_queue(self, counts: Iterable[tuple[tuple[str, ...], int]]) -> Iterable[tuple[tuple[str, ...], float]]:
        """Sum up counts of LocalQueues by their ClusterQueues. LocalQueues without a ClusterQueue do not count."""
        total: Counter[tuple[str, ...]] = Counter()
        for (local, *more), number in counts:
            if (queue := self._cache.local_queues.get(local)) is not None:
                total[(queue.spec.cluster_queue, *more)] += number
        return total.items()


def _increment(counts: _Counts, key: _SeriesKey, *more: str) -> None:
    for counter in counts.of(key, *more):
        counter.inc()


def _observe(times: _Times, key: _SeriesKey, start: datetime | None, end: Condition, *more: str) -> None:
    """Observe the time from `start` to the transition of `end`, if both are known."""
    if start is not None and end.last_transition_time is not None:
        for histogram in times.of(key, *more):
            histogram.observe(max(0.0, (end.last_transition_time - start).total_seconds()))


def _find_turned(old: Workload, new: Workload, type: str) -> Condition | None:
    """Return the condition of this type if the update made it True; otherwise None."""
    return None if is_true(old.status.conditions, type) else find_true(new.status.conditions, type)


def _find_start(workload: Workload, type: str) -> datetime | None:
    """Return when the condition of this type became True; None if it is not True."""
    condition = find_true(workload.status.conditions, type)
    return condition.last_transition_time if condition is not None else None


def _find_queued(workload: Workload) -> datetime | None:
    """Return when the workload was last requeued; if it never was, when it was created."""
    return _find_start(workload, REQUEUED) or workload.metadata.creation_timestamp


def _count_evictions(workload: Workload) -> dict[tuple[str, str], int]:
    stats = workload.status.scheduling_stats
    return {(one.reason, one.underlying_cause): one.count for one in stats.evictions} if stats is not None else {}


def _explain_unadmitted(workload: Workload) -> tuple[str, str] | None:
    """Return the reasons of Admitted and QuotaReserved ("" if it has quota), or None.

    The result is None if the workload is admitted or being deleted.
    """
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
