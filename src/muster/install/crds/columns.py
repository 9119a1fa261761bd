"""List the printer columns (`kubectl get`) of CustomResourceDefinitions, equal to upstream's."""

from collections.abc import Sequence
from typing import Any, Final

from muster.api import jobset, kueue
from muster.api.kinds import Kind
from muster.api.kueue.fields import OLD_VERSION
from muster.api.podgroups import coscheduling, volcano

Column = dict[str, Any]

WIDE: Final = 1  # shown only with `-o wide`


def make_columns(kind: Kind[Any]) -> Sequence[Column]:
    """Return the printer columns of a version of a kind. If there are none, `kubectl get` shows only name and age."""
    if kind.version == OLD_VERSION and kind.resource == kueue.CLUSTER_QUEUE.resource:
        return _make_cluster_queue_columns(".spec.cohort")
    return [dict(column) for column in _COLUMNS.get(kind.resource, ())]


def _make_column(name: str, path: str, description: str = "", *, type_: str = "string", priority: int = 0) -> Column:
    column: Column = {"name": name, "type": type_, "jsonPath": path}
    if description:
        column["description"] = description
    if priority:
        column["priority"] = priority
    return column


def _make_number_column(name: str, path: str, description: str = "", *, priority: int = 0) -> Column:
    return _make_column(name, path, description, type_="integer", priority=priority)


def _make_age_column(name: str = "Age") -> Column:
    return _make_column(name, ".metadata.creationTimestamp", "How long ago it was made", type_="date")


def _make_condition_column(name: str, type_: str, description: str) -> Column:
    return _make_column(name, f'.status.conditions[?(@.type=="{type_}")].status', description)


def _make_cluster_queue_columns(cohort: str) -> Sequence[Column]:
    return (
        _make_column("Cohort", cohort, "Cohort whose unused quota it shares"),
        _make_column("Strategy", ".spec.queueingStrategy", "How its workloads are ordered", priority=WIDE),
        _make_number_column("Pending Workloads", ".status.pendingWorkloads", "How many workloads wait"),
        _make_number_column(
            "Admitted Workloads",
            ".status.admittedWorkloads",
            "How many workloads are admitted and not finished",
            priority=WIDE,
        ),
    )


# By `Kind.resource`.
_COLUMNS: dict[str, Sequence[Column]] = {
    kueue.CLUSTER_QUEUE.resource: _make_cluster_queue_columns(".spec.cohortName"),
    kueue.LOCAL_QUEUE.resource: (
        _make_column("ClusterQueue", ".spec.clusterQueue", "ClusterQueue behind it"),
        _make_number_column("Pending Workloads", ".status.pendingWorkloads", "How many workloads wait"),
        _make_number_column(
            "Admitted Workloads", ".status.admittedWorkloads", "How many workloads are admitted and not finished"
        ),
    ),
    kueue.MULTI_KUEUE_CLUSTER.resource: (
        _make_condition_column("Connected", "Active", "Whether it can be reached"),
        _make_age_column(),
    ),
    kueue.WORKLOAD.resource: (
        _make_column("Queue", ".spec.queueName", "LocalQueue that it was submitted to"),
        _make_column("Reserved in", ".status.admission.clusterQueue", "ClusterQueue whose quota it holds"),
        _make_condition_column("Admitted", "Admitted", "Whether it is admitted"),
        _make_condition_column("Finished", "Finished", "Whether it has finished"),
        _make_age_column(),
    ),
    kueue.WORKLOAD_PRIORITY_CLASS.resource: (
        _make_number_column("Value", ".value", "The priority; the greater, the sooner"),
    ),
    jobset.JOB_SET.resource: (
        _make_column("TerminalState", ".status.terminalState", "How it ended"),
        _make_column("Restarts", ".status.restarts", "How many times it was restarted"),
        _make_condition_column("Completed", "Completed", "Whether all of it has succeeded"),
        _make_column("Suspended", ".spec.suspend", "Whether it is suspended"),
        _make_age_column(),
    ),
    volcano.POD_GROUP.resource: (
        _make_column("STATUS", ".status.phase"),
        _make_number_column("minMember", ".spec.minMember"),
        _make_number_column("RUNNINGS", ".status.running"),
        _make_age_column("AGE"),
        _make_column("QUEUE", ".spec.queue", priority=WIDE),
    ),
    coscheduling.POD_GROUP.resource: (
        _make_column("Phase", ".status.phase", "What the group does"),
        _make_number_column("MinMember", ".spec.minMember", "How many pods start together, or none"),
        _make_number_column("Running", ".status.running", "How many pods run"),
        _make_number_column("Succeeded", ".status.succeeded", "How many pods have succeeded"),
        _make_number_column("Failed", ".status.failed", "How many pods have failed"),
        _make_age_column(),
    ),
}
