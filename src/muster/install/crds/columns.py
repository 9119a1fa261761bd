"""List the columns of `kubectl get`, beside the name: upstream's columns."""

from collections.abc import Sequence
from typing import Any, Final

from muster.api import jobset, kueue
from muster.api.kinds import Kind
from muster.api.kueue.fields import OLD_VERSION
from muster.api.podgroups import coscheduling, volcano

Column = dict[str, Any]

WIDE: Final = 1  # shown only with `-o wide`


def columns(kind: Kind[Any]) -> Sequence[Column]:
    """Return the columns of a version of a kind; an empty list shows the age alone."""
    if kind.version == OLD_VERSION and kind.resource == kueue.CLUSTER_QUEUE.resource:
        return _cluster_queue(".spec.cohort")
    return [dict(column) for column in _COLUMNS.get(kind.resource, ())]


def _column(name: str, path: str, description: str = "", *, type_: str = "string", priority: int = 0) -> Column:
    column: Column = {"name": name, "type": type_, "jsonPath": path}
    if description:
        column["description"] = description
    if priority:
        column["priority"] = priority
    return column


def _number(name: str, path: str, description: str = "", *, priority: int = 0) -> Column:
    return _column(name, path, description, type_="integer", priority=priority)


def _age(name: str = "Age") -> Column:
    return _column(name, ".metadata.creationTimestamp", "How long ago it was made", type_="date")


def _condition(name: str, type_: str, description: str) -> Column:
    return _column(name, f'.status.conditions[?(@.type=="{type_}")].status', description)


def _cluster_queue(cohort: str) -> Sequence[Column]:
    return (
        _column("Cohort", cohort, "Cohort whose unused quota it shares"),
        _column("Strategy", ".spec.queueingStrategy", "How its workloads are ordered", priority=WIDE),
        _number("Pending Workloads", ".status.pendingWorkloads", "How many workloads wait"),
        _number(
            "Admitted Workloads",
            ".status.admittedWorkloads",
            "How many workloads are admitted and not finished",
            priority=WIDE,
        ),
    )


# By `Kind.resource`.
_COLUMNS: dict[str, Sequence[Column]] = {
    kueue.CLUSTER_QUEUE.resource: _cluster_queue(".spec.cohortName"),
    kueue.LOCAL_QUEUE.resource: (
        _column("ClusterQueue", ".spec.clusterQueue", "ClusterQueue behind it"),
        _number("Pending Workloads", ".status.pendingWorkloads", "How many workloads wait"),
        _number("Admitted Workloads", ".status.admittedWorkloads", "How many workloads are admitted and not finished"),
    ),
    kueue.MULTI_KUEUE_CLUSTER.resource: (_condition("Connected", "Active", "Whether it can be reached"), _age()),
    kueue.WORKLOAD.resource: (
        _column("Queue", ".spec.queueName", "LocalQueue that it was submitted to"),
        _column("Reserved in", ".status.admission.clusterQueue", "ClusterQueue whose quota it holds"),
        _condition("Admitted", "Admitted", "Whether it is admitted"),
        _condition("Finished", "Finished", "Whether it has finished"),
        _age(),
    ),
    kueue.WORKLOAD_PRIORITY_CLASS.resource: (_number("Value", ".value", "The priority; the greater, the sooner"),),
    jobset.JOB_SET.resource: (
        _column("TerminalState", ".status.terminalState", "How it ended"),
        _column("Restarts", ".status.restarts", "How many times it was restarted"),
        _condition("Completed", "Completed", "Whether all of it has succeeded"),
        _column("Suspended", ".spec.suspend", "Whether it is suspended"),
        _age(),
    ),
    volcano.POD_GROUP.resource: (
        _column("STATUS", ".status.phase"),
        _number("minMember", ".spec.minMember"),
        _number("RUNNINGS", ".status.running"),
        _age("AGE"),
        _column("QUEUE", ".spec.queue", priority=WIDE),
    ),
    coscheduling.POD_GROUP.resource: (
        _column("Phase", ".status.phase", "What the group does"),
        _number("MinMember", ".spec.minMember", "How many pods start together, or none"),
        _number("Running", ".status.running", "How many pods run"),
        _number("Succeeded", ".status.succeeded", "How many pods have succeeded"),
        _number("Failed", ".status.failed", "How many pods have failed"),
        _age(),
    ),
}
