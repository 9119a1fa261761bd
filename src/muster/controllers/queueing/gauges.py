"""How queues stand, under Kueue's metric names: read from the tree and the queues at the moment of a scrape.

Resources of queues and Cohorts are shown only where that is asked for (`metrics.enableClusterQueueResources`), and
LocalQueues where `metrics.localQueueMetrics` selects them. CPUs are whole ones, as everywhere in Prometheus.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import nan

from muster.api.conditions import find
from muster.api.config.types import Metrics
from muster.api.kueue.names import ACTIVE, TERMINATING
from muster.api.values.selectors import label_matcher
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.series import LOCAL_LABELS, QUEUE_LABELS, ROLE, ROLE_LABEL, named
from muster.queueing.model import FlavorResource, Quota, Usage
from muster.queueing.quota.tallies import Tally
from muster.queueing.quota.tree import Node
from muster.queueing.scheduling.fairness import share
from muster.runtime.metrics import Gauges
from muster.runtime.objects import split_key

_STATES = ("pending", "active", "terminating")
_STATUSES = ("True", "False", "Unknown")

_HOLDINGS: tuple[tuple[str, str, Callable[[Tally], Usage]], ...] = (
    ("resource_reservation", "What workloads hold", lambda tally: tally.reserved),
    ("resource_usage", "What admitted workloads hold", lambda tally: tally.used),
)
_LIMITS: tuple[tuple[str, str, Callable[[Quota], int | None]], ...] = (
    ("nominal_quota", "The nominal quota", lambda quota: quota.nominal),
    ("borrowing_limit", "How much may be borrowed; any amount if absent", lambda quota: quota.borrowing),
    ("lending_limit", "How much may be lent; all of it if absent", lambda quota: quota.lending),
)

_Values = Iterable[tuple[tuple[str, ...], float]]


class QueueGauges:
    """What `Registry.scraped` asks. by_usage: there is admission fair sharing."""

    def __init__(self, cache: QueueingCache, settings: Metrics, *, by_usage: bool) -> None:
        self._cache = cache
        self._by_usage = by_usage
        self._resources = settings.enable_cluster_queue_resources
        local = settings.local_queue_metrics
        self._local = local.enable
        selector = local.local_queue_selector
        self._selects = label_matcher(selector).matches if selector is not None else lambda _labels: True

    def is_measured(self, local_queue: str) -> bool:
        """Whether the LocalQueue (`namespace/name`) has metrics of its own."""
        found = self._cache.local_queues.get(local_queue)
        return self._local and found is not None and self._selects(found.metadata.labels)

    def __call__(self) -> Iterator[Gauges]:
        """All of them."""
        nodes = list(self._cache.tree.queues.values())
        cohorts = list(self._cache.tree.cohorts.values())
        yield from self._of_queues(nodes)
        yield from self._of_cohorts(cohorts)
        if self._local:
            yield from self._of_local_queues()
        if self._resources:
            yield from self._quotas(nodes)
            yield from self._subtrees(cohorts)

    def _of_queues(self, nodes: list[Node]) -> Iterator[Gauges]:
        queue = partial(gauges_of, labels=QUEUE_LABELS)
        queues = self._cache.queues
        waiting = {node.name: queues.counts(node.name) for node in nodes}
        yield queue(
            "pending_workloads",
            "The number of pending workloads",
            (row for name, counts in waiting.items() for row in _pending((name,), counts)),
            more=("status",),
        )
        yield queue(
            "pending_scheduling_hashes",
            "The number of kinds of pending workloads",
            (row for node in nodes for row in _pending((node.name,), queues.classes(node.name))),
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
            (((node.name,), node.tallies.total.admitted) for node in nodes),
        )
        yield queue(
            "cluster_queue_status",
            "1 for the status that the ClusterQueue has",
            (row for node in nodes for row in _one_of(node.name, _STATES, self._state(node.name))),
            more=("status",),
        )
        yield queue(
            "cluster_queue_info",
            "1 for the Cohort that the ClusterQueue is in, and the root of its tree",
            (((node.name, *_lineage(node)), 1) for node in nodes),
            more=("parent_cohort", "root_cohort"),
        )

    def _of_cohorts(self, cohorts: list[Node]) -> Iterator[Gauges]:
        cohort = partial(gauges_of, labels=("cohort",))
        yield cohort(
            "cohort_info",
            "1 for the Cohort that the Cohort is in, and the root of its tree",
            (((node.name, *_lineage(node)), 1) for node in cohorts),
            more=("parent_cohort", "root_cohort"),
        )
        yield cohort(
            "cohort_subtree_admitted_active_workloads",
            "The number of admitted workloads below the Cohort that are not finished",
            (((node.name,), sum(one.tallies.total.admitted for one in node.queues())) for node in cohorts),
        )

    def _of_local_queues(self) -> Iterator[Gauges]:
        local = partial(gauges_of, labels=LOCAL_LABELS)
        tallies = list(self._local_tallies())
        yield local(
            "local_queue_pending_workloads",
            "The number of pending workloads",
            (row for key, counts in self._local_counts() for row in _pending(_local(key), counts)),
            more=("status",),
        )
        yield local(
            "local_queue_reserving_active_workloads",
            "The number of workloads that hold quota",
            ((_local(key), tally.reserving) for key, tally in tallies),
        )
        yield local(
            "local_queue_admitted_active_workloads",
            "The number of admitted workloads that are not finished",
            ((_local(key), tally.admitted) for key, tally in tallies),
        )
        yield local(
            "local_queue_status",
            "1 for what the condition Active is",
            (
                ((*_local(key), status), float(status == self._active(key)))
                for key, _ in tallies
                for status in _STATUSES
            ),
            more=("active",),
        )
        if self._by_usage:
            yield gauges_of(
                "local_queue_admission_fair_sharing_usage",
                "What the LocalQueue used lately and is about to use, by the weights of resources and by its own",
                [((*_local(key), queue), self._cache.queues.usage.get(key, 0.0)) for key, queue in self._measured()],
                labels=(*LOCAL_LABELS, *QUEUE_LABELS),
            )
        for name, text, of in _HOLDINGS if self._resources else ():
            yield local(
                f"local_queue_{name}",
                text,
                [row for key, tally in tallies for row in _amounts(_local(key), of(tally))],
                more=("flavor", "resource"),
            )

    def _quotas(self, nodes: list[Node]) -> Iterator[Gauges]:
        resource = partial(gauges_of, labels=("cohort", "cluster_queue", "flavor", "resource"))
        for name, text, of in _HOLDINGS:
            yield resource(
                f"cluster_queue_{name}",
                text,
                [row for node in nodes for row in _amounts(_named(node), _covered(node, of(node.tallies.total)))],
            )
        for name, text, limit in _LIMITS:
            yield resource(
                f"cluster_queue_{name}",
                text,
                [row for node in nodes for row in _amounts(_named(node), _limits(node, limit))],
            )
        yield gauges_of(
            "cluster_queue_resource_pending",
            "What pending workloads ask for",
            [
                ((node.name, name), _units(name, number))
                for node in nodes
                for name, number in self._cache.queues.asked(node.name).items()
            ],
            labels=(*QUEUE_LABELS, "resource"),
        )
        yield gauges_of(
            "cluster_queue_weighted_share",
            "The share by which fair sharing goes; NaN without bound",
            (((node.name, node.policy.cohort), _share(node)) for node in nodes),
            labels=(*QUEUE_LABELS, "cohort"),
        )

    def _subtrees(self, cohorts: list[Node]) -> Iterator[Gauges]:
        resource = partial(gauges_of, labels=("cohort", "flavor", "resource"))
        yield gauges_of(
            "cohort_weighted_share",
            "The share by which fair sharing goes; NaN without bound",
            (((node.name,), _share(node)) for node in cohorts),
            labels=("cohort",),
        )
        yield resource(
            "cohort_subtree_quota",
            "The quota of the Cohort and of all below it that is not kept from it",
            (row for node in cohorts for row in _amounts((node.name,), node.subtree)),
        )
        yield resource(
            "cohort_subtree_resource_reservations",
            "What workloads below the Cohort hold",
            (row for node in cohorts for row in _amounts((node.name,), _held_below(node))),
        )

    def _state(self, queue: str) -> str:
        found = self._cache.activity(queue)
        if found is not None and found.reason == TERMINATING:
            return "terminating"
        return "active" if found is not None and found.active else "pending"

    def _active(self, local_queue: str) -> str:
        found = self._cache.local_queues.get(local_queue)
        active = find(found.status.conditions, ACTIVE) if found is not None else None
        return active.status if active is not None else "Unknown"

    def _local_tallies(self) -> Iterator[tuple[str, Tally]]:
        nothing = Tally()
        for key, queue in self._measured():
            node = self._cache.tree.queues.get(queue)
            yield key, node.tallies.of(key) if node is not None else nothing

    def _local_counts(self) -> Iterator[tuple[str, tuple[int, int]]]:
        found = {name: self._cache.queues.counts_by_local(name) for name in self._cache.tree.queues}
        for key, queue in self._measured():
            yield key, found.get(queue, {}).get(key, (0, 0))

    def _measured(self) -> Iterator[tuple[str, str]]:
        """LocalQueues that have metrics of their own, each with its ClusterQueue."""
        for queue in self._cache.local_queues.all():
            key = f"{queue.metadata.namespace}/{queue.metadata.name}"
            if self.is_measured(key):
                yield key, queue.spec.cluster_queue


def gauges_of(name: str, text: str, values: _Values, *, labels: tuple[str, ...], more: tuple[str, ...] = ()) -> Gauges:
    """A gauge by these labels, and by who counts."""
    rows = (((*row, *ROLE), value) for row, value in values)
    return Gauges(named(name), text, (*labels, *more, *ROLE_LABEL), rows)


def _pending(of: tuple[str, ...], counts: tuple[int, int]) -> _Values:
    active, inadmissible = counts
    return (((*of, "active"), active), ((*of, "inadmissible"), inadmissible))


def _one_of(name: str, states: tuple[str, ...], which: str) -> _Values:
    return (((name, state), float(state == which)) for state in states)


def _amounts(of: tuple[str, ...], usage: Usage) -> _Values:
    return (((*of, fr.flavor, fr.resource), _units(fr.resource, number)) for fr, number in usage.items())


def _units(resource: str, number: int) -> float:
    """Whole CPUs, which are kept in thousandths."""
    return number / 1000 if resource == "cpu" else number


def _share(node: Node) -> float:
    found = share(node)
    return nan if found.infinite else float(found.value)


def _local(key: str) -> tuple[str, str]:
    namespace, name = split_key(key)
    return name, namespace


def _named(node: Node) -> tuple[str, str]:
    return node.policy.cohort, node.name


def _lineage(node: Node) -> tuple[str, str]:
    """The Cohort above, and the root; a Cohort that is in none is a root itself."""
    root = node.root.name if node.parent is not None or not node.is_queue else ""
    return node.parent.name if node.parent is not None else "", root


def _covered(node: Node, usage: Usage) -> Usage:
    """What is used of everything that the ClusterQueue has quota for."""
    return {fr: usage.get(fr, 0) for fr in node.quotas}


def _limits(node: Node, of: Callable[[Quota], int | None]) -> Usage:
    limits = {fr: of(quota) for fr, quota in node.quotas.items()}
    return {fr: limit for fr, limit in limits.items() if limit is not None}


def _held_below(node: Node) -> dict[FlavorResource, int]:
    total: dict[FlavorResource, int] = {}
    for queue in node.queues():
        for fr, number in queue.tallies.total.reserved.items():
            total[fr] = total.get(fr, 0) + number
    return total
