"""Rows about ClusterQueues and LocalQueues: their quota, its use, and their state. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muster.api.conditions import find
from muster.api.kueue import (
    HOLD,
    HOLD_AND_DRAIN,
    STOP_NONE,
    ClusterQueue,
    ClusterQueueStatus,
    LocalQueue,
    LocalQueueStatus,
)
from muster.api.kueue.names import ACTIVE, UNKNOWN
from muster.api.meta import Condition
from muster.api.ours.teams import read_limits, read_users, write_limits
from muster.api.values.quantity import parse_amount
from muster.insight.quota.state import closed_queue
from muster.insight.text import format_quantity

# The start of the message of a ClusterQueue's condition Active, before the obstacles.
_CANNOT_ADMIT = "Can't admit new workloads: "

# The state of a deleted ClusterQueue whose jobs still run. It keeps its quota until they have ended.
LEAVING = "Deleting"

# Resources that every machine has plenty of, or that users never request alone. Only `-o wide` shows them.
_RARELY = ("pods", "ephemeral-storage")


def make_cluster_queue_row(queue: ClusterQueue) -> dict[str, Any]:
    """Return the row of a ClusterQueue: its state, the counts of its workloads, its quotas and its users.

    Amounts are in the units of admission.
    """
    spec, status = queue.spec, queue.status
    leaving = {"state": LEAVING} if queue.metadata.deletion_timestamp is not None else {}
    return {
        "name": queue.metadata.name,
        "cohort": spec.cohort_name,
        "strategy": spec.queueing_strategy,
        **_describe_state_and_counts(spec.stop_policy, status),
        **leaving,
        "quotas": make_quota_rows(queue),
        "weight": str(spec.fair_sharing.weight) if spec.fair_sharing is not None else "",
        "users": None if (users := read_users(queue.metadata.annotations)) is None else sorted(users),
        "perUser": write_limits(read_limits(queue.metadata.annotations)),
    }


def make_quota_rows(queue: ClusterQueue) -> list[dict[str, Any]]:
    """Return a row for each flavor and resource of a ClusterQueue: its quota and its use. Raises `QuantityError`."""
    taken = {
        (flavor.name, used.name): (parse_amount(used.name, used.total), parse_amount(used.name, used.borrowed))
        for flavor in queue.status.flavors_reservation
        for used in flavor.resources
    }
    rows = []
    for group in queue.spec.resource_groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                used, borrowed = taken.get((flavor.name, quota.name), (0, 0))
                nominal = parse_amount(quota.name, quota.nominal_quota)
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


def make_local_queue_row(queue: LocalQueue) -> dict[str, Any]:
    """Return the row of a LocalQueue: its ClusterQueue, its state and the counts of its workloads."""
    spec, status = queue.spec, queue.status
    return {
        "namespace": queue.metadata.namespace,
        "name": queue.metadata.name,
        "clusterQueue": spec.cluster_queue,
        **_describe_state_and_counts(spec.stop_policy, status),
    }


def _describe_state_and_counts(stop_policy: str, status: ClusterQueueStatus | LocalQueueStatus) -> dict[str, Any]:
    return {
        "state": describe_state(stop_policy, status.conditions),
        "message": explain_inactive(status.conditions),
        "pending": status.pending_workloads or 0,
        "reserving": status.reserving_workloads or 0,
        "admitted": status.admitted_workloads or 0,
    }


def describe_state(stop_policy: str, conditions: Sequence[Condition]) -> str:
    """Return Active, Stopped, Draining, Inactive, or the reason for which the queue does not admit.

    The state is New until a controller has set the condition.
    """
    if stop_policy in (HOLD, HOLD_AND_DRAIN):
        return "Stopped" if stop_policy == HOLD else "Draining"
    active = find(conditions, ACTIVE)
    if active is None:
        return "New"
    if active.status == "True":
        return "Active"
    return "Inactive" if active.reason == UNKNOWN else active.reason


def describe_resume(name: str, *, cluster: bool) -> str:
    """Return the command that a user types to resume a stopped queue.

    cluster: whether it is a ClusterQueue.
    """
    return f"muster queue resume {name}{' --cluster' if cluster else ''}"


def explain_inactive(conditions: Sequence[Condition]) -> str:
    """Return why a queue admits nothing, from its condition Active; "" if it admits or has no such condition yet."""
    active = find(conditions, ACTIVE)
    return active.message if active is not None and active.status != "True" else ""


def explain_closed(reason: str, queues: Mapping[str, ClusterQueue]) -> str:
    """Return the reason why a job waits. If it only says that the ClusterQueue is inactive, add why that is so.

    For a queue that a user stopped, nothing is added: that user knows why, and `muster why` names the command that
    resumes it.

    queues: ClusterQueues by name.
    """
    queue = queues.get(closed_queue(reason))
    if queue is None or queue.spec.stop_policy != STOP_NONE:
        return reason
    why = explain_inactive(queue.status.conditions).removeprefix(_CANNOT_ADMIT).rstrip(".")
    return f"{reason}: {why}" if why else reason


def list_resources(rows: Iterable[dict[str, Any]], *, everything: bool = False) -> list[str]:
    """Return the resources that get a column of their own, in the order of the rows.

    Unless `everything` is set, a resource with no quota and no use, such as GPUs of deleted nodes, is left out, and so
    are rarely limited resources.
    """
    quotas = [quota for row in rows for quota in row["quotas"]]
    names = dict.fromkeys(quota["resource"] for quota in quotas)
    there = {quota["resource"] for quota in quotas if quota["nominal"] or quota["used"]}
    return [name for name in names if everything or (name in there and name not in _RARELY)]


def format_usage(row: dict[str, Any], resource: str) -> str:
    """Return the use of a resource over all flavors: `6/8`, or `10/8 (2 borrowed)`; `-` without a quota."""
    quotas = [quota for quota in row["quotas"] if quota["resource"] == resource]
    if not quotas:
        return "-"
    used, nominal, borrowed = (sum(quota[what] for quota in quotas) for what in ("used", "nominal", "borrowed"))
    return describe_use(resource, used, nominal, borrowed)


def describe_use(resource: str, used: int, nominal: int, borrowed: int, lent: int = 0) -> str:
    """Return the use of a quota as text: `6/8`, `10/8 (2 borrowed)`, or `3/8 (4 lent)`."""
    text = f"{format_quantity(resource, used)}/{format_quantity(resource, nominal)}"
    parts = [f"{format_quantity(resource, n)} {word}" for n, word in ((borrowed, "borrowed"), (lent, "lent")) if n]
    return f"{text} ({', '.join(parts)})" if parts else text


def format_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row in the form of `-o json|yaml`, with amounts as Kubernetes quantities."""
    from muster.api.values.quantity import format_amount

    amounts = ("nominal", "used", "borrowed")
    quotas = [
        quota | {what: format_amount(quota["resource"], quota[what]) for what in amounts} for quota in row["quotas"]
    ]
    return row | {"quotas": quotas}
