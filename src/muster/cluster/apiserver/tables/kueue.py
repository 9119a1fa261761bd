"""The columns and cells of the Kueue kinds, as their CRDs define them in both versions."""

from datetime import datetime
from typing import Any

from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    MULTI_KUEUE_CLUSTER,
    MULTI_KUEUE_CONFIG,
    PROVISIONING_REQUEST_CONFIG,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
    ClusterQueue,
    LocalQueue,
    MultiKueueCluster,
    Workload,
    WorkloadPriorityClass,
)
from muster.api.kueue.names import ACTIVE, ADMITTED, FINISHED
from muster.api.kueue.v1beta1.clusterqueue import ClusterQueue as OldClusterQueue
from muster.api.meta import Condition
from muster.cluster.apiserver.tables.printer import NAME, Cells, Column, Printer, format_age, make_wide_column


def _make_age_column(description: str) -> Column:
    return Column(name="Age", type="date", description=description)


def _make_integer_column(name: str, description: str, priority: int = 0) -> Column:
    return Column(name=name, type="integer", description=description, priority=priority)


def _get_status(conditions: tuple[Condition, ...], type_: str) -> str | None:
    """Return the status of the condition of this type; None (an empty cell) without one."""
    return next((condition.status for condition in conditions if condition.type == type_), None)


def _render_cluster_queue(queue: ClusterQueue | OldClusterQueue, _now: datetime) -> Cells:
    cohort = queue.spec.cohort if isinstance(queue, OldClusterQueue) else queue.spec.cohort_name
    status = queue.status
    return [
        queue.metadata.name,
        cohort or None,
        queue.spec.queueing_strategy,
        status.pending_workloads,
        status.admitted_workloads,
    ]


def _render_local_queue(queue: LocalQueue, _now: datetime) -> Cells:
    status = queue.status
    return [
        queue.metadata.name,
        queue.spec.cluster_queue or None,
        status.pending_workloads,
        status.admitted_workloads,
    ]


def _render_workload(workload: Workload, now: datetime) -> Cells:
    admission, conditions = workload.status.admission, workload.status.conditions
    return [
        workload.metadata.name,
        workload.spec.queue_name or None,
        (admission.cluster_queue or None) if admission else None,
        _get_status(conditions, ADMITTED),
        _get_status(conditions, FINISHED),
        format_age(workload.metadata.creation_timestamp, now),
    ]


def _render_multi_kueue_cluster(cluster: MultiKueueCluster, now: datetime) -> Cells:
    return [
        cluster.metadata.name,
        _get_status(cluster.status.conditions, ACTIVE),
        format_age(cluster.metadata.creation_timestamp, now),
    ]


def _render_workload_priority_class(priority_class: WorkloadPriorityClass, _now: datetime) -> Cells:
    return [priority_class.metadata.name, priority_class.value]


def _render_plain(obj: Any, now: datetime) -> Cells:
    return [obj.metadata.name, format_age(obj.metadata.creation_timestamp, now)]


# The columns of a CRD that defines none.
_PLAIN = Printer((NAME, _make_age_column("Time since the object was created.")), _render_plain)
_CREATED = _make_age_column("Time this workload was created")

# The printers by `Kind.resource`. The old version has the same columns.
KUEUE: dict[str, Printer] = {
    kind.resource: _PLAIN
    for kind in (ADMISSION_CHECK, COHORT, MULTI_KUEUE_CONFIG, PROVISIONING_REQUEST_CONFIG, RESOURCE_FLAVOR, TOPOLOGY)
} | {
    CLUSTER_QUEUE.resource: Printer(
        (
            NAME,
            Column(name="Cohort", description="Cohort that this ClusterQueue belongs to"),
            make_wide_column("Strategy", "The queueing strategy used to prioritize workloads"),
            _make_integer_column("Pending Workloads", "Number of pending workloads"),
            _make_integer_column(
                "Admitted Workloads", "Number of admitted workloads that haven't finished yet", priority=1
            ),
        ),
        _render_cluster_queue,
    ),
    LOCAL_QUEUE.resource: Printer(
        (
            NAME,
            Column(name="ClusterQueue", description="Backing ClusterQueue"),
            _make_integer_column("Pending Workloads", "Number of pending workloads"),
            _make_integer_column("Admitted Workloads", "Number of admitted workloads that haven't finished yet."),
        ),
        _render_local_queue,
    ),
    WORKLOAD.resource: Printer(
        (
            NAME,
            Column(name="Queue", description="Name of the queue this workload was submitted to"),
            Column(name="Reserved in", description="Name of the ClusterQueue where the workload is reserving quota"),
            Column(name="Admitted", description="Admission status"),
            Column(name="Finished", description="Workload finished"),
            _CREATED,
        ),
        _render_workload,
    ),
    MULTI_KUEUE_CLUSTER.resource: Printer(
        (NAME, Column(name="Connected", description="MultiKueueCluster is connected"), _CREATED),
        _render_multi_kueue_cluster,
    ),
    WORKLOAD_PRIORITY_CLASS.resource: Printer(
        (NAME, _make_integer_column("Value", "Value of workloadPriorityClass's Priority")),
        _render_workload_priority_class,
    ),
}
