"""Rows about ClusterQueues and LocalQueues: what they have, what is used of it, and how they are. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from muster.api.conditions import find
from muster.api.kueue import HOLD, HOLD_AND_DRAIN, ClusterQueue, ClusterQueueStatus, LocalQueue, LocalQueueStatus
from muster.api.kueue.names import ACTIVE
from muster.api.meta import Condition
from muster.api.values.quantity import amount
from muster.insight.text import quantity

# What every machine has plenty of, or is not asked for by itself, is shown with `-o wide`.
_RARELY = ("pods", "ephemeral-storage")


def cluster_queue_row(queue: ClusterQueue) -> dict[str, Any]:
    """A ClusterQueue; amounts in the units of decisions."""
    spec, status = queue.spec, queue.status
    return {
        "name": queue.metadata.name,
        "cohort": spec.cohort_name,
        "strategy": spec.queueing_strategy,
        **_state_and_counts(spec.stop_policy, status),
        "quotas": quota_rows(queue),
    }


def quota_rows(queue: ClusterQueue) -> list[dict[str, Any]]:
    """What a ClusterQueue has of each flavor and resource, and what is taken of it."""
    taken = {
        (flavor.name, used.name): (amount(used.name, used.total), amount(used.name, used.borrowed))
        for flavor in queue.status.flavors_reservation
        for used in flavor.resources
    }
    rows = []
    for group in queue.spec.resource_groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                used, borrowed = taken.get((flavor.name, quota.name), (0, 0))
                nominal = amount(quota.name, quota.nominal_quota)
                rows.append(
                    {
                        "flavor": flavor.name,
                        "resource": quota.name,
                        "nominal": nominal,
                        "used": used,
                        "borrowed": borrowed,
                    }
                )
    return rows


def local_queue_row(queue: LocalQueue) -> dict[str, Any]:
    """A LocalQueue."""
    spec, status = queue.spec, queue.status
    return {
        "namespace": queue.metadata.namespace,
        "name": queue.metadata.name,
        "clusterQueue": spec.cluster_queue,
        **_state_and_counts(spec.stop_policy, status),
    }


def _state_and_counts(stop_policy: str, status: ClusterQueueStatus | LocalQueueStatus) -> dict[str, Any]:
    return {
        "state": state(stop_policy, status.conditions),
        "message": message(status.conditions),
        "pending": status.pending_workloads or 0,
        "reserving": status.reserving_workloads or 0,
        "admitted": status.admitted_workloads or 0,
    }


def state(stop_policy: str, conditions: Sequence[Condition]) -> str:
    """Active, Stopped, Draining, or why it does not admit; Unknown if no controller has looked at it."""
    if stop_policy in (HOLD, HOLD_AND_DRAIN):
        return "Stopped" if stop_policy == HOLD else "Draining"
    active = find(conditions, ACTIVE)
    if active is None:
        return "Unknown"
    return "Active" if active.status == "True" else active.reason


def message(conditions: Sequence[Condition]) -> str:
    """Why it does not admit; "" if it does."""
    active = find(conditions, ACTIVE)
    return active.message if active is not None and active.status != "True" else ""


def resources_of(rows: Iterable[dict[str, Any]], *, everything: bool = False) -> list[str]:
    """The resources that have a column of their own, in the order in which they are first named."""
    names = dict.fromkeys(quota["resource"] for row in rows for quota in row["quotas"])
    return [name for name in names if everything or name not in _RARELY]


def usage_cell(row: dict[str, Any], resource: str) -> str:
    """`6/8`, over all flavors; `10/8 (2 borrowed)`."""
    quotas = [quota for quota in row["quotas"] if quota["resource"] == resource]
    if not quotas:
        return "-"
    used, nominal, borrowed = (sum(quota[what] for quota in quotas) for what in ("used", "nominal", "borrowed"))
    text = f"{quantity(resource, used)}/{quantity(resource, nominal)}"
    return f"{text} ({quantity(resource, borrowed)} borrowed)" if borrowed else text


def written(row: dict[str, Any]) -> dict[str, Any]:
    """The row for `-o json|yaml`: amounts as quantities."""
    from muster.api.values.quantity import format_amount

    amounts = ("nominal", "used", "borrowed")
    quotas = [
        quota | {what: format_amount(quota["resource"], quota[what]) for what in amounts} for quota in row["quotas"]
    ]
    return row | {"quotas": quotas}
