# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The Workload: the pods of one job as queues see them, and how far it has come on its way to running."""

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

# States of an admission check.
CHECK_PENDING = "Pending"
CHECK_READY = "Ready"
CHECK_RETRY = "Retry"
CHECK_REJECTED = "Rejected"

# Positions of a preemption gate.
GATE_CLOSED = "Closed"
GATE_OPEN = "Open"

# Groups of priority classes; the kinds are WorkloadPriorityClass and PriorityClass.
WORKLOAD_PRIORITY_GROUP = "kueue.x-k8s.io"
POD_PRIORITY_GROUP = "scheduling.k8s.io"

# As many podsets has a workload at most.
MOST_POD_SETS = 18

_Count = Annotated[Int32, limits(minimum=0)]
_DefaultedPodSetName = Annotated[str, limits(max_length=63, pattern=LABEL), DEFAULTED]


class PodSet(Struct):
    """Pods that are alike.

    name: unique in the workload.
    template: what the pods are like.
    count: how many there are.
    min_count: with how few the job would run; absent if it needs all.
    topology_request: how close together they must be.
    """

    name: _DefaultedPodSetName = MAIN_POD_SET
    template: Required[PodTemplateSpec] = PodTemplateSpec()
    count: Annotated[_Count, DEFAULTED] = 1
    min_count: Annotated[Int32, limits(minimum=1)] | None = None
    topology_request: PodSetTopologyRequest | None = None


class PriorityClassRef(Struct):
    """The class that a workload's priority comes from.

    group: kueue.x-k8s.io or scheduling.k8s.io.
    kind: WorkloadPriorityClass or PriorityClass, in this order.
    name: the class.
    """

    group: Annotated[Required[str], one_of(WORKLOAD_PRIORITY_GROUP, POD_PRIORITY_GROUP)] = ""
    kind: Annotated[Required[str], one_of("WorkloadPriorityClass", "PriorityClass")] = ""
    name: Annotated[Required[str], limits(min_length=1, max_length=253, pattern=SUBDOMAIN)] = ""


class PreemptionGate(Struct):
    """Something that must be open before the workload may preempt others.

    name: unique in the workload.
    """

    name: Annotated[Required[str], limits(min_length=1, max_length=63)] = ""


class WorkloadSpec(Struct):
    """What a workload needs, and where it queues for it.

    pod_sets: the pods.
    queue_name: the LocalQueue, in the same namespace.
    priority_class_ref: the class that the priority comes from.
    priority: the greater, the sooner.
    active: whether it may be admitted; an admitted one that is not active any more is evicted.
    maximum_execution_time_seconds: it is deactivated after being admitted for so long.
    preemption_gates: what must be open before it may preempt others.
    """

    pod_sets: Annotated[tuple[PodSet, ...], map_by("name"), limits(min_items=1, max_items=MOST_POD_SETS)] = ()
    queue_name: ObjectName = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: Int32 | None = None
    active: Annotated[bool, DEFAULTED] = True
    maximum_execution_time_seconds: Annotated[Int32, limits(minimum=1)] | None = None
    preemption_gates: Annotated[tuple[PreemptionGate, ...], map_by("name"), limits(max_items=8)] = ()


class PodSetAssignment(Struct):
    """What a podset got.

    name: the podset.
    flavors: the flavor of each resource.
    resource_usage: what all its pods use together.
    count: pods that were counted; fewer than the podset has if it was admitted in part.
    topology_assignment: where the pods go.
    delayed_topology_request: Pending or Ready: whether places are still to be found, after the admission checks.
    """

    name: _DefaultedPodSetName = MAIN_POD_SET
    flavors: dict[str, ObjectName] = {}
    resource_usage: ResourceList = {}
    count: _Count | None = None
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: Annotated[str, one_of("Pending", "Ready"), limits(max_length=7)] | None = None


class Admission(Struct):
    """The quota that a workload holds.

    cluster_queue: whose quota.
    pod_set_assignments: what each podset got.
    """

    cluster_queue: ObjectName = ""
    pod_set_assignments: Annotated[tuple[PodSetAssignment, ...], map_by("name"), limits(max_items=MOST_POD_SETS)] = ()


class RequeueState(Struct):
    """How often a workload went back to its queue, and when it may come out again.

    count: how often, since it last was ready.
    requeue_at: when it is next considered.
    """

    count: _Count | None = None
    requeue_at: datetime | None = None


class ReclaimablePod(Struct):
    """Pods whose quota is not needed any more.

    name: the podset.
    count: how many.
    """

    name: RequiredPodSetName = ""
    count: _Count


class PodSetUpdate(Struct):
    """What an admission check asks the pods of a podset to have.

    name: the podset.
    labels: further labels.
    annotations: further annotations.
    node_selector: further labels of the node.
    tolerations: further tolerations.
    """

    name: RequiredPodSetName = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: Annotated[tuple[Toleration, ...], ATOMIC, limits(max_items=8)] = ()


class AdmissionCheckState(Struct):
    """How one admission check stands.

    name: the AdmissionCheck.
    state: Pending, Ready, Retry or Rejected.
    last_transition_time: when the state last changed.
    message: a sentence for people.
    requeue_after_seconds: how long to wait before the next try.
    retry_count: how often it was tried again.
    pod_set_updates: what the pods must have.
    """

    name: RequiredCheckName = ""
    state: Annotated[Required[str], one_of(CHECK_PENDING, CHECK_READY, CHECK_RETRY, CHECK_REJECTED)] = ""
    last_transition_time: Required[datetime | None] = None
    message: Annotated[str, limits(max_length=32768)]
    requeue_after_seconds: _Count | None = None
    retry_count: _Count | None = None
    pod_set_updates: Annotated[tuple[PodSetUpdate, ...], ATOMIC, limits(max_items=MOST_POD_SETS)] = ()


class PodSetRequest(Struct):
    """What a waiting podset asks for.

    name: the podset.
    resources: what all its pods use together.
    """

    name: RequiredPodSetName = ""
    resources: ResourceList = {}


class WorkloadSchedulingStatsEviction(Struct):
    """How often a workload was evicted for one cause.

    reason: reason of the Evicted condition.
    underlying_cause: what was behind it; may be empty.
    count: how often.
    """

    reason: Annotated[Required[str], limits(max_length=316)] = ""
    underlying_cause: Annotated[str, limits(max_length=316)]
    count: _Count


class SchedulingStats(Struct):
    """What has happened to a workload.

    evictions: how often it was evicted.
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
    """How a preemption gate stands.

    name: the gate.
    position: Closed or Open.
    last_transition_time: when the position last changed.
    """

    name: Annotated[Required[str], limits(min_length=1, max_length=63)] = ""
    position: Annotated[Required[str], one_of(GATE_CLOSED, GATE_OPEN)] = ""
    last_transition_time: Required[datetime | None] = None


class WorkloadStatus(Struct):
    """How far a workload has come.

    conditions: observed aspects: QuotaReserved, Admitted, PodsReady, Evicted, Finished and others.
    admission: the quota that it holds.
    requeue_state: how often it went back to its queue.
    reclaimable_pods: pods whose quota is not needed any more.
    admission_checks: how its admission checks stand.
    resource_requests: what it asks for while it waits.
    accumulated_past_execution_time_seconds: how long it was admitted before, in all.
    scheduling_stats: what has happened to it.
    nominated_cluster_names: clusters where it is tried.
    cluster_name: the cluster where it runs.
    unhealthy_nodes: nodes that its pods have to leave.
    preemption_gates: how its preemption gates stand.
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
    """The pods of one job, which get quota all together or wait.

    metadata: what every object carries.
    spec: what it needs.
    status: how far it has come.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


WORKLOAD = Kind(GROUP, VERSION, "Workload", "workloads", Workload)
