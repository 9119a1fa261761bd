"""Compute the status of queues and Cohorts: numbers of waiting and admitted workloads, used and borrowed quota.

All numbers come from existing sums (`tallies`, `quota`). The cost of a status depends on the number of flavors of a
queue, not on the number of workloads. Flavors and resources have the order of the ClusterQueue's specification.
"""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from muster.api.conditions import find
from muster.api.kueue import (
    ClusterQueueStatus,
    CohortStatus,
    FairSharingStatus,
    FlavorUsage,
    LocalQueueFlavorUsage,
    LocalQueueResourceUsage,
    LocalQueueStatus,
    ResourceUsage,
)
from muster.api.kueue.names import ACTIVE
from muster.api.values.quantity import format_amount
from muster.queueing.conditions import Conditions, put
from muster.queueing.model import FlavorResource, QueueSpec, Usage
from muster.queueing.pending.activity import Activity
from muster.queueing.quota.tallies import WorkloadSums
from muster.queueing.quota.tree import Node
from muster.queueing.scheduling.fairness import share


def queue_status(old: ClusterQueueStatus, node: Node, waiting: int, *, fair: bool) -> ClusterQueueStatus:
    """Return the status of a ClusterQueue, except its conditions.

    waiting: how many workloads wait in the ClusterQueue.
    fair: whether fair sharing is on, so that the status shows the share.
    """
    tally = node.tallies.total
    return msgspec.structs.replace(
        old,
        flavors_reservation=_list_flavors(node, tally.reserved),
        flavors_usage=_list_flavors(node, tally.used),
        pending_workloads=waiting,
        reserving_workloads=tally.reserving,
        admitted_workloads=tally.admitted,
        fair_sharing=_make_sharing(node) if fair else None,
    )


def local_status(old: LocalQueueStatus, tally: WorkloadSums, queue: QueueSpec | None, waiting: int) -> LocalQueueStatus:
    """Return the status of a LocalQueue, except its conditions and its past usage.

    The status shows every flavor of the LocalQueue's ClusterQueue.
    """
    return msgspec.structs.replace(
        old,
        flavors_reservation=_list_local_flavors(queue, tally.reserved),
        flavors_usage=_list_local_flavors(queue, tally.used),
        pending_workloads=waiting,
        reserving_workloads=tally.reserving,
        admitted_workloads=tally.admitted,
    )


def cohort_status(node: Node) -> CohortStatus:
    """Return the status of a Cohort. It is used only if fair sharing is on."""
    return CohortStatus(fair_sharing=_make_sharing(node))


def with_activity(conditions: Conditions, activity: Activity, now: datetime, generation: int) -> Conditions:
    """Return the queue's conditions with Active set from its activity; the same tuple if nothing changes."""
    conditions = put(conditions, ACTIVE, activity.active, activity.reason, activity.message, now)
    active = find(conditions, ACTIVE)
    if active is None or active.observed_generation == generation:
        return conditions
    observed = msgspec.structs.replace(active, observed_generation=generation)
    return tuple(observed if condition is active else condition for condition in conditions)


def _make_sharing(node: Node) -> FairSharingStatus:
    return FairSharingStatus(weighted_share=share(node).weighted)


def _list_flavors(node: Node, usage: Usage) -> tuple[FlavorUsage, ...]:
    return tuple(
        FlavorUsage(
            name=flavor, resources=tuple(_make_usage(node, FlavorResource(flavor, name), usage) for name in resources)
        )
        for flavor, resources in _iterate_covered(node.policy)
    )


def _make_usage(node: Node, fr: FlavorResource, usage: Usage) -> ResourceUsage:
    total = usage.get(fr, 0)
    borrowed = max(0, total - node.quota(fr).nominal)
    return ResourceUsage(
        name=fr.resource, total=format_amount(fr.resource, total), borrowed=format_amount(fr.resource, borrowed)
    )


def _list_local_flavors(queue: QueueSpec | None, usage: Usage) -> tuple[LocalQueueFlavorUsage, ...]:
    return tuple(
        LocalQueueFlavorUsage(
            name=flavor,
            resources=tuple(
                LocalQueueResourceUsage(
                    name=name, total=format_amount(name, usage.get(FlavorResource(flavor, name), 0))
                )
                for name in resources
            ),
        )
        for flavor, resources in (_iterate_covered(queue) if queue is not None else ())
    )


def _iterate_covered(queue: QueueSpec) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each flavor with the resources for which it has quota. A flavor is in one group only."""
    for group in queue.groups:
        for flavor in group.flavors:
            yield flavor, group.resources
