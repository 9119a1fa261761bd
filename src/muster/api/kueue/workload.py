# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The Workload: the pods of one job as queues see them, and their progress from the queue to their end."""

from datetime import datetime
from typing import Annotated

from muster.api.core import PodTemplateSpec, Toleration
from muster.api.kinds import Kind
from muster.api.kueue.fields import (
    GROUP,
    LABEL,
    SUBDOMAIN,
    VERSION,
    Conditions,
    ObjectName,
    RequiredCheckName,
    RequiredPodSetName,
)
from muster.api.kueue.topology import PodSetTopologyRequest, TopologyAssignment
from muster.api.markers import ATOMIC, DEFAULTED, Int32, Required, limits, map_by, one_of
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList

MAIN_POD_SET = "main"

# The states of an admission check.
CHECK_PENDING = "Pending"
CHECK_READY = "Ready"
CHECK_RETRY = "Retry"
CHECK_REJECTED = "Rejected"

# The positions of a preemption gate.
GATE_CLOSED = "Closed"
GATE_OPEN = "Open"

# The groups of priority classes, whose kinds are WorkloadPriorityClass and PriorityClass.
WORKLOAD_PRIORITY_GROUP = "kueue.x-k8s.io"
POD_PRIORITY_GROUP = "scheduling.k8s.io"

# The most podsets of a workload.
MOST_POD_SETS = 18

_Count = Annotated[Int32, limits(minimum=0)]
_DefaultedPodSetName = Annotated[str, limits(max_length=63, pattern=LABEL), DEFAULTED]


class PodSet(Struct):
    """A set of identical pods of a workload.

    name: a name that is unique in the workload.
    template: the template of the pods.
    count: the number of pods.
    min_count: the least number of pods with which the job runs; if absent, it needs all.
    topology_request: the request how close together the pods must be.
    """

    name: _DefaultedPodSetName = MAIN_POD_SET
    template: Required[PodTemplateSpec] = PodTemplateSpec()
    count: Annotated[_Count, DEFAULTED] = 1
    min_count: Annotated[Int32, limits(minimum=1)] | None = None
    topology_request: PodSetTopologyRequest | None = None


class PriorityClassRef(Struct):
    """A reference to the class of a workload's priority.

    group: kueue.x-k8s.io or scheduling.k8s.io.
    kind: WorkloadPriorityClass for the first group, PriorityClass for the second.
    name: the class.
    """

    group: Annotated[Required[str], one_of(WORKLOAD_PRIORITY_GROUP, POD_PRIORITY_GROUP)] = ""
    kind: Annotated[Required[str], one_of("WorkloadPriorityClass", "PriorityClass")] = ""
    name: Annotated[Required[str], limits(min_length=1, max_length=253, pattern=SUBDOMAIN)] = ""


class PreemptionGate(Struct):
    """A gate that must be open before the workload may preempt others.

    name: a name that is unique in the workload.
    """

    name: Annotated[Required[str], limits(min_length=1, max_length=63)] = ""


class WorkloadSpec(Struct):
    """The demand of a workload, and its queue.

    pod_sets: the pods.
    queue_name: the LocalQueue, in the same namespace.
    priority_class_ref: the class of the priority.
    priority: the priority; a higher one comes first.
    active: whether the workload may be admitted. An admitted workload that becomes inactive is evicted.
    maximum_execution_time_seconds: the time after its admission when the workload is deactivated.
    preemption_gates: the gates that must be open before the workload may preempt others.
    """

    pod_sets: Annotated[tuple[PodSet, ...], map_by("name"), limits(min_items=1, max_items=MOST_POD_SETS)] = ()
    queue_name: ObjectName = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: Int32 | None = None
    active: Annotated[bool, DEFAULTED] = True
    maximum_execution_time_seconds: Annotated[Int32, limits(minimum=1)] | None = None
    preemption_gates: Annotated[tuple[PreemptionGate, ...], map_by("name"), limits(max_items=8)] = ()


class PodSetAssignment(Struct):
    """The quota and the placement that a podset got.

    name: the podset.
    flavors: the flavor of each resource.
    resource_usage: the usage of all its pods together.
    count: the number of admitted pods, which is less than that of the podset after a partial admission.
    topology_assignment: the placement of the pods.
    delayed_topology_request: whether the placement waits for the admission checks: Pending or Ready.
    """

    name: _DefaultedPodSetName = MAIN_POD_SET
    flavors: dict[str, ObjectName] = {}
    resource_usage: ResourceList = {}
    count: _Count | None = None
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: Annotated[str, one_of("Pending", "Ready"), limits(max_length=7)] | None = None


class Admission(Struct):
    """The quota that a workload holds.

    cluster_queue: the ClusterQueue of the quota.
    pod_set_assignments: the quota and placement of each podset.
    """

    cluster_queue: ObjectName = ""
    pod_set_assignments: Annotated[tuple[PodSetAssignment, ...], map_by("name"), limits(max_items=MOST_POD_SETS)] = ()


class RequeueState(Struct):
    """The number of a workload's requeues, and the end of its backoff.

    count: the number of requeues since the workload was last ready.
    requeue_at: when the workload is next considered.
    """

    count: _Count | None = None
    requeue_at: datetime | None = None


class ReclaimablePod(Struct):
    """The pods of a podset that no longer need their quota.

    name: the podset.
    count: the number of pods.
    """

    name: RequiredPodSetName = ""
    count: _Count


class PodSetUpdate(Struct):
    """The changes that an admission check requests for the pods of a podset.

    name: the podset.
    labels: additional labels.
    annotations: additional annotations.
    node_selector: additional labels of the node.
    tolerations: additional tolerations.
    """

    name: RequiredPodSetName = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: Annotated[tuple[Toleration, ...], ATOMIC, limits(max_items=8)] = ()


class AdmissionCheckState(Struct):
    """The state of an admission check of a workload.

    name: the AdmissionCheck.
    state: Pending, Ready, Retry or Rejected.
    last_transition_time: when the state last changed.
    message: a sentence for people.
    requeue_after_seconds: how long to wait before the next try.
    retry_count: the number of retries.
    pod_set_updates: the changes that the check requests for the pods.
    """

    name: RequiredCheckName = ""
    state: Annotated[Required[str], one_of(CHECK_PENDING, CHECK_READY, CHECK_RETRY, CHECK_REJECTED)] = ""
    last_transition_time: Required[datetime | None] = None
    message: Annotated[str, limits(max_length=32768)]
    requeue_after_seconds: _Count | None = None
    retry_count: _Count | None = None
    pod_set_updates: Annotated[tuple[PodSetUpdate, ...], ATOMIC, limits(max_items=MOST_POD_SETS)] = ()


class PodSetRequest(Struct):
    """The requests of a waiting podset.

    name: the podset.
    resources: the requests of all its pods together.
    """

    name: RequiredPodSetName = ""
    resources: ResourceList = {}


class WorkloadSchedulingStatsEviction(Struct):
    """The number of evictions of a workload for one cause.

    reason: the reason of the Evicted condition.
    underlying_cause: the underlying cause; may be empty.
    count: the number of evictions.
    """

    reason: Annotated[Required[str], limits(max_length=316)] = ""
    underlying_cause: Annotated[str, limits(max_length=316)]
    count: _Count


class SchedulingStats(Struct):
    """The counts of a workload's evictions.

    evictions: the number of evictions by cause.
    """

    evictions: Annotated[
        tuple[WorkloadSchedulingStatsEviction, ...], map_by("reason", "underlyingCause"), limits(max_items=256)
    ] = ()


class UnhealthyNode(Struct):
    """A node that pods of the workload have to leave.

    name: the node.
    """

    name: Annotated[Required[str], limits(max_length=63)] = ""


class PreemptionGateState(Struct):
    """The state of a preemption gate.

    name: the gate.
    position: Closed or Open.
    last_transition_time: when the position last changed.
    """

    name: Annotated[Required[str], limits(min_length=1, max_length=63)] = ""
    position: Annotated[Required[str], one_of(GATE_CLOSED, GATE_OPEN)] = ""
    last_transition_time: Required[datetime | None] = None


class WorkloadStatus(Struct):
    """The observed state of a workload.

    conditions: observed aspects: QuotaReserved, Admitted, PodsReady, Evicted, Finished and others.
    admission: the quota that the workload holds.
    requeue_state: the number of requeues, and the time of the next one.
    reclaimable_pods: the pods that no longer need their quota.
    admission_checks: the states of the admission checks.
    resource_requests: the requests of a waiting workload.
    accumulated_past_execution_time_seconds: the total time of earlier admissions.
    scheduling_stats: the counts of evictions.
    nominated_cluster_names: the clusters that try the workload.
    cluster_name: the cluster where the workload runs.
    unhealthy_nodes: the nodes that its pods have to leave.
    preemption_gates: the states of the preemption gates.
    """

    conditions: Conditions = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: Annotated[tuple[ReclaimablePod, ...], map_by("name"), limits(max_items=MOST_POD_SETS)] = ()
    admission_checks: Annotated[tuple[AdmissionCheckState, ...], map_by("name"), limits(max_items=8)] = ()
    resource_requests: Annotated[tuple[PodSetRequest, ...], map_by("name"), limits(max_items=MOST_POD_SETS)] = ()
    accumulated_past_execution_time_seconds: Int32 | None = None
    scheduling_stats: SchedulingStats | None = None
    nominated_cluster_names: Annotated[
        tuple[Annotated[str, limits(max_length=256)], ...], ATOMIC, limits(max_items=20)
    ] = ()
    cluster_name: Annotated[str, limits(max_length=256)] | None = None
    unhealthy_nodes: Annotated[tuple[UnhealthyNode, ...], map_by("name"), limits(max_items=8)] = ()
    preemption_gates: Annotated[tuple[PreemptionGateState, ...], map_by("name"), limits(max_items=8)] = ()


class Workload(Struct):
    """The pods of one job, which get their quota together or wait.

    metadata: the standard metadata of an object.
    spec: the demand of the workload, and its queue.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


WORKLOAD = Kind(GROUP, VERSION, "Workload", "workloads", Workload)
