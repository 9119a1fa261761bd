"""Report the state of queues under Kueue's metric names, read from the tree and the queues at each scrape.

Resources of queues and Cohorts are reported only if `metrics.enableClusterQueueResources` is set, and LocalQueues only
if `metrics.localQueueMetrics` selects them. CPUs are reported in whole units, as usual in Prometheus.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import nan

from muster.api.conditions import find
from muster.api.config import Configuration
from muster.api.kueue.names import ACTIVE, TERMINATING
from muster.api.values.selectors import label_matcher
from muster.controllers.customlabels import CustomLabels
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.series import LOCAL_LABELS, QUEUE_LABELS, ROLE, ROLE_LABEL, name_metric
from muster.queueing.model import FlavorResource, Quota, Usage
from muster.queueing.quota.tallies import WorkloadSums
from muster.queueing.quota.tree import Node
from muster.queueing.scheduling.fairness import share
from muster.runtime.metrics import Gauges
from muster.runtime.objects import split_key

_STATES = ("pending", "active", "terminating")
_STATUSES = ("True", "False", "Unknown")

_HOLDINGS: tuple[tuple[str, str, Callable[[WorkloadSums], Usage]], ...] = (
    ("resource_reservation", "The quota that workloads hold", lambda tally: tally.reserved),
    ("resource_usage", "The quota that admitted workloads hold", lambda tally: tally.used),
)
_LIMITS: tuple[tuple[str, str, Callable[[Quota], int | None]], ...] = (
    ("nominal_quota", "The nominal quota", lambda quota: quota.nominal),
    ("borrowing_limit", "How much may be borrowed; any amount if absent", lambda quota: quota.borrowing),
    ("lending_limit", "How much may be lent; all of it if absent", lambda quota: quota.lending),
)

_Values = Iterable[tuple[tuple[str, ...], float]]


class QueueGauges:
    """The gauges about queues, which a scrape of the metrics reads.

    by_usage: whether admission fair sharing is on.
    """

    def __init__(
        self, cache: QueueingCache, configuration: Configuration, custom: CustomLabels, *, by_usage: bool
    ) -> None:
        settings, features = configuration.metrics, configuration.features
        self._cache = cache
        self._custom = custom
        self.deleted: set[str] = set()  # the names of deleted Cohorts that queues still name
        self._of_workloads = custom.names("Workload")
        self._by_usage = by_usage
        self._everywhere = configuration.admission_fair_sharing is not None
        self._resources = settings.enable_cluster_queue_resources
        local = settings.local_queue_metrics
        self._local = local.enable and features.is_enabled("LocalQueueMetrics")
        self._cohorts = features.is_enabled("MetricsForCohorts")
        selector = local.local_queue_selector
        self._selects = label_matcher(selector).matches if selector is not None else lambda _labels: True

    def is_measured(self, local_queue: str) -> bool:
        """Return whether the LocalQueue (`namespace/name`) has metrics of its own."""
        queue = self._cache.local_queues.get(local_queue)
        return self._local and queue is not None and self._selects(queue.metadata.labels)

    def __call__(self) -> Iterator[Gauges]:
        """Yield all gauges."""
        nodes = list(self._cache.tree.queues.values())
        cohorts = list(self._cache.tree.cohorts.values()) if self._cohorts else []
        yield from self._measure_queues(nodes)
        yield from self._measure_cohorts(cohorts)
        if self._local:
            yield from self._measure_local_queues()
        if self._resources:
            yield from self._measure_quotas(nodes)
            yield from self._measure_subtrees(cohorts)

    def _measure_queues(self, nodes: list[Node]) -> Iterator[Gauges]:
        """Yield the gauges of ClusterQueues, except those of single resources."""
        queue = partial(gauges_of, labels=QUEUE_LABELS)
        queues = self._cache.queues
        waiting = {node.name: queues.counts(node.name) for node in nodes}
        yield queue(
            "pending_workloads",
            "The number of pending workloads",
            (row for name, counts in waiting.items() for row in self._count_waiting(name, counts)),
            more=("status", *self._of_workloads),
        )
        yield queue(
            "pending_scheduling_hashes",
            "The number of equivalence classes of pending workloads",
            (row for node in nodes for row in _make_pending_rows((node.name,), queues.classes(node.name))),
            more=("status",),
        )
        yield queue(
            "reserving_active_workloads",
            "The number of workloads that hold quota",
            (((node.name,), node.tallies.total.reserving) for node in nodes),
        )
        yield queue(
            "admitted_active_workloads",
            "The number of admitted workloads that are not finished",
            (row for node in nodes for row in self._count_admitted((node.name,), node, node.tallies.total.admitted)),
            more=self._of_workloads,
        )
        yield queue(
            "cluster_queue_status",
            "1 for the status that the ClusterQueue has",
            (row for node in nodes for row in _make_state_rows(node.name, _STATES, self._find_state(node.name))),
            more=("status",),
        )
        yield queue(
            "cluster_queue_info",
            "1 for the Cohort that the ClusterQueue is in, and the root of its tree",
            (((node.name, *_find_lineage(node)), 1) for node in (nodes if self._cohorts else ())),
            more=("parent_cohort", "root_cohort"),
        )

    def _measure_cohorts(self, cohorts: list[Node]) -> Iterator[Gauges]:
        cohort = partial(gauges_of, labels=("cohort",))
        yield cohort(
            "cohort_info",
            "1 for the Cohort that the Cohort is in, and the root of its tree",
            (((node.name, *_find_lineage(node)), 1) for node in cohorts),
            more=("parent_cohort", "root_cohort"),
        )
        yield cohort(
            "cohort_subtree_admitted_active_workloads",
            "The number of admitted workloads below the Cohort that are not finished",
            (
                ((node.name,), sum(one.tallies.total.admitted for one in node.queues()))
                for node in cohorts
                if node.name not in self.deleted
            ),
        )

    def _measure_local_queues(self) -> Iterator[Gauges]:
        """Yield the gauges of the LocalQueues that the settings select."""
        local = partial(gauges_of, labels=LOCAL_LABELS)
        tallies = list(self._list_local_tallies())
        yield local(
            "local_queue_pending_workloads",
            "The number of pending workloads",
            (row for key, counts in self._list_local_counts() for row in _make_pending_rows(_split_key(key), counts)),
            more=("status",),
        )
        yield local(
            "local_queue_reserving_active_workloads",
            "The number of workloads that hold quota",
            ((_split_key(key), tally.reserving) for key, tally in tallies),
        )
        yield local(
            "local_queue_admitted_active_workloads",
            "The number of admitted workloads that are not finished",
            (row for key, tally in tallies for row in self._count_admitted_in(key, tally.admitted)),
            more=self._of_workloads,
        )
        yield local(
            "local_queue_status",
            "1 for the status of the condition Active",
            (
                ((*_split_key(key), status), float(status == self._find_active_status(key)))
                for key, _ in tallies
                for status in _STATUSES
            ),
            more=("active",),
        )
        if self._by_usage:
            yield gauges_of(
                "local_queue_admission_fair_sharing_usage",
                "Past usage and penalties of the LocalQueue, by the weights of resources and its own weight",
                [
                    ((*_split_key(key), queue), self._cache.queues.usage.get(key, 0.0))
                    for key, queue in self._list_measured()
                    if self._everywhere or self._orders_by_usage(queue)
                ],
                labels=(*LOCAL_LABELS, *QUEUE_LABELS),
            )
        for name, text, usage_of in _HOLDINGS if self._resources else ():
            yield local(
                f"local_queue_{name}",
                text,
                [row for key, tally in tallies for row in _make_amount_rows(_split_key(key), usage_of(tally))],
                more=("flavor", "resource"),
            )

    def _measure_quotas(self, nodes: list[Node]) -> Iterator[Gauges]:
        """Yield the gauges of ClusterQueues by resource: quotas, their use, and pending requests; also fair shares."""
        resource = partial(gauges_of, labels=("cohort", "cluster_queue", "flavor", "resource"))
        for name, text, usage_of in _HOLDINGS:
            yield resource(
                f"cluster_queue_{name}",
                text,
                [
                    row
                    for node in nodes
                    for row in _make_amount_rows(
                        _get_labels(node), _fill_unused_quotas(node, usage_of(node.tallies.total))
                    )
                ],
            )
        for name, text, limit in _LIMITS:
            yield resource(
                f"cluster_queue_{name}",
                text,
                [row for node in nodes for row in _make_amount_rows(_get_labels(node), _list_limits(node, limit))],
            )
        yield gauges_of(
            "cluster_queue_resource_pending",
            "The total requests of pending workloads",
            [
                ((node.name, name), _to_units(name, number))
                for node in nodes
                for name, number in self._cache.queues.sum_requests(node.name).items()
            ],
            labels=(*QUEUE_LABELS, "resource"),
        )
        yield gauges_of(
            "cluster_queue_weighted_share",
            "The share for fair sharing; NaN if it is infinite",
            (((node.name, node.policy.cohort), _compute_share(node)) for node in nodes),
            labels=(*QUEUE_LABELS, "cohort"),
        )

    def _measure_subtrees(self, cohorts: list[Node]) -> Iterator[Gauges]:
        resource = partial(gauges_of, labels=("cohort", "flavor", "resource"))
        yield gauges_of(
            "cohort_weighted_share",
            "The share for fair sharing; NaN if it is infinite",
            (((node.name,), _compute_share(node)) for node in cohorts),
            labels=("cohort",),
        )
        yield resource(
            "cohort_subtree_quota",
            "The quota of the Cohort, and the quota that the nodes below lend to it",
            (row for node in cohorts for row in _make_amount_rows((node.name,), node.subtree)),
        )
        yield resource(
            "cohort_subtree_resource_reservations",
            "The quota that workloads below the Cohort hold",
            (row for node in cohorts for row in _make_amount_rows((node.name,), _sum_holdings(node))),
        )

    def _count_waiting(self, queue: str, counts: tuple[int, int]) -> _Values:
        """Return the metric rows that count waiting workloads. If workloads have custom labels, visit each workload."""
        if not self._of_workloads:
            return _make_pending_rows((queue,), counts)
        numbers = Counter(
            ("active" if active else "inadmissible", *self._list_label_values(key))
            for key, active in self._cache.queues.keys_of_pending(queue)
        )
        return [((queue, *more), number) for more, number in numbers.items()]

    def _count_admitted(self, labels: tuple[str, ...], node: Node, number: int, local_queue: str = "") -> _Values:
        """Return the metric rows that count admitted workloads. If workloads have custom labels, visit each workload.

        local_queue: the LocalQueue (`namespace/name`) whose workloads to count; "" for all.
        """
        if not self._of_workloads:
            return [(labels, number)]
        numbers = Counter(
            self._list_label_values(key)
            for key, workload in node.workloads.items()
            if workload.admitted and not workload.growth_of and local_queue in ("", workload.local_queue)
        )
        return [((*labels, *values), number) for values, number in numbers.items()]

    def _count_admitted_in(self, local_queue: str, number: int) -> _Values:
        queue = self._cache.local_queues.get(local_queue)
        node = self._cache.tree.queues.get(queue.spec.cluster_queue) if queue is not None else None
        return self._count_admitted(_split_key(local_queue), node, number, local_queue) if node is not None else ()

    def _list_label_values(self, workload: str) -> tuple[str, ...]:
        obj = self._cache.workloads.get(workload)
        return self._custom.values_of("Workload", obj.metadata if obj is not None else None)

    def _find_state(self, queue: str) -> str:
        activity = self._cache.activity(queue)
        if activity is not None and activity.reason == TERMINATING:
            return "terminating"
        return "active" if activity is not None and activity.active else "pending"

    def _find_active_status(self, local_queue: str) -> str:
        obj = self._cache.local_queues.get(local_queue)
        active = find(obj.status.conditions, ACTIVE) if obj is not None else None
        return active.status if active is not None else "Unknown"

    def _list_local_tallies(self) -> Iterator[tuple[str, WorkloadSums]]:
        nothing = WorkloadSums()
        for key, queue in self._list_measured():
            node = self._cache.tree.queues.get(queue)
            yield key, node.tallies.of(key) if node is not None else nothing

    def _list_local_counts(self) -> Iterator[tuple[str, tuple[int, int]]]:
        counts = {name: self._cache.queues.counts_by_local(name) for name in self._cache.tree.queues}
        for key, queue in self._list_measured():
            yield key, counts.get(queue, {}).get(key, (0, 0))

    def _orders_by_usage(self, cluster_queue: str) -> bool:
        node = self._cache.tree.queues.get(cluster_queue)
        return node is not None and node.policy.by_usage

    def _list_measured(self) -> Iterator[tuple[str, str]]:
        """Yield the LocalQueues that have metrics of their own, each with its ClusterQueue."""
        for queue in self._cache.local_queues.all():
            key = f"{queue.metadata.namespace}/{queue.metadata.name}"
            if self.is_measured(key):
                yield key, queue.spec.cluster_queue


def gauges_of(name: str, text: str, values: _Values, *, labels: tuple[str, ...], more: tuple[str, ...] = ()) -> Gauges:
    """Return a gauge with these labels, and with the label for the replica's role."""
    rows = (((*row, *ROLE), value) for row, value in values)
    return Gauges(name_metric(name), text, (*labels, *more, *ROLE_LABEL), rows)


def _make_pending_rows(labels: tuple[str, ...], counts: tuple[int, int]) -> _Values:
    active, inadmissible = counts
    return (((*labels, "active"), active), ((*labels, "inadmissible"), inadmissible))


def _make_state_rows(name: str, states: tuple[str, ...], current_state: str) -> _Values:
    return (((name, state), float(state == current_state)) for state in states)


def _make_amount_rows(labels: tuple[str, ...], usage: Usage) -> _Values:
    return (((*labels, fr.flavor, fr.resource), _to_units(fr.resource, number)) for fr, number in usage.items())


def _to_units(resource: str, number: int) -> float:
    """Return the amount in whole CPUs, which are counted in thousandths, or in units of other resources."""
    return number / 1000 if resource == "cpu" else number


def _compute_share(node: Node) -> float:
    node_share = share(node)
    return nan if node_share.infinite else float(node_share.value)


def _split_key(key: str) -> tuple[str, str]:
    namespace, name = split_key(key)
    return name, namespace


def _get_labels(node: Node) -> tuple[str, str]:
    return node.policy.cohort, node.name


def _find_lineage(node: Node) -> tuple[str, str]:
    """Return the names of a node's parent Cohort and of its root Cohort, as labels of metrics; "" for none."""
    root = node.root.name if node.parent is not None or not node.is_queue else ""
    return node.parent.name if node.parent is not None else "", root


def _fill_unused_quotas(node: Node, usage: Usage) -> Usage:
    """Return the usage of all resources for which the ClusterQueue has quota, including unused ones."""
    return {fr: usage.get(fr, 0) for fr in node.quotas}


def _list_limits(node: Node, limit_of: Callable[[Quota], int | None]) -> Usage:
    limits = {fr: limit_of(quota) for fr, quota in node.quotas.items()}
    return {fr: limit for fr, limit in limits.items() if limit is not None}


def _sum_holdings(node: Node) -> dict[FlavorResource, int]:
    total: dict[FlavorResource, int] = {}
    for queue in node.queues():
        for fr, number in queue.tallies.total.reserved.items():
            total[fr] = total.get(fr, 0) + number
    return total
