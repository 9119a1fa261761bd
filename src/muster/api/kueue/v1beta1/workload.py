# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The Workload of v1beta1."""

from typing import Annotated, Final

from muster.api.core import PodTemplateSpec
from muster.api.kinds import Kind
from muster.api.kueue import workload
from muster.api.kueue.fields import GROUP, LABEL, OLD_VERSION, Conditions, ObjectName, RequiredName, TopologyLabel
from muster.api.markers import ATOMIC, DEFAULTED, Int32, Required, limits, map_by, one_of
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList

# Where a workload's priority class comes from.
WORKLOAD_PRIORITY_SOURCE: Final = "kueue.x-k8s.io/workloadpriorityclass"
POD_PRIORITY_SOURCE: Final = "scheduling.k8s.io/priorityclass"

_Count = Annotated[Int32, limits(minimum=0)]
_DefaultedPodSetName = Annotated[str, limits(max_length=63, pattern=LABEL), DEFAULTED]


class PodSetTopologyRequest(Struct):
    """How close together the pods of a podset must be.

    required: level in whose one domain all the pods must be.
    preferred: level in whose one domain the pods should be; else in as few wider ones as possible.
    unconstrained: whether any placement will do that has room for all.
    pod_index_label: label that holds a pod's index.
    sub_group_index_label: label that holds the index of a pod's group, such as a replicated Job.
    sub_group_count: number of such groups.
    pod_set_group_name: podsets of the same group are placed together.
    pod_set_slice_required_topology: level in whose one domain every slice must be.
    pod_set_slice_size: pods in a slice.
    """

    required: TopologyLabel | None = None
    preferred: TopologyLabel | None = None
    unconstrained: bool | None = None
    pod_index_label: Annotated[str, limits(max_length=317)] | None = None
    sub_group_index_label: Annotated[str, limits(max_length=317)] | None = None
    sub_group_count: _Count | None = None
    pod_set_group_name: Annotated[str, limits(max_length=256)] | None = None
    pod_set_slice_required_topology: TopologyLabel | None = None
    pod_set_slice_size: Annotated[Int32, limits(minimum=1)] | None = None


class PodSet(Struct):
    """Pods that are alike.

    name: unique in the workload.
    template: what the pods are like.
    count: how many there are.
    min_count: with how few the job would run; absent if it needs all.
    topology_request: how close together they must be.
    """

    name: _DefaultedPodSetName = workload.MAIN_POD_SET
    template: Required[PodTemplateSpec] = PodTemplateSpec()
    count: Required[Annotated[_Count, DEFAULTED]] = 1
    min_count: Annotated[Int32, limits(minimum=1)] | None = None
    topology_request: PodSetTopologyRequest | None = None


class WorkloadSpec(Struct):
    """What a workload needs, and where it queues for it.

    pod_sets: the pods.
    queue_name: the LocalQueue, in the same namespace.
    priority_class_name: the class that the priority comes from.
    priority_class_source: what sort of class that is; without it the name means nothing.
    priority: the greater, the sooner.
    active: whether it may be admitted; an admitted one that is not active any more is evicted.
    maximum_execution_time_seconds: it is deactivated after being admitted for so long.
    """

    pod_sets: Required[Annotated[tuple[PodSet, ...], map_by("name"), limits(min_items=1, max_items=18)]] = ()
    queue_name: ObjectName = ""
    priority_class_name: ObjectName = ""
    priority_class_source: Annotated[
        str, one_of(WORKLOAD_PRIORITY_SOURCE, POD_PRIORITY_SOURCE, ""), DEFAULTED
    ] = ""  # fmt: skip
    priority: Int32 | None = None
    active: Annotated[bool, DEFAULTED] = True
    maximum_execution_time_seconds: Annotated[Int32, limits(minimum=1)] | None = None


class TopologyDomainAssignment(Struct):
    """Pods in one domain.

    values: values of the levels that name the domain.
    count: how many pods.
    """

    values: Required[Annotated[tuple[str, ...], ATOMIC, limits(min_items=1, max_items=16)]] = ()
    count: Annotated[Int32, limits(minimum=1)]


class TopologyAssignment(Struct):
    """Where the pods of a podset go.

    levels: labels of the levels that name a domain, from the widest to the narrowest.
    domains: the domains with their pods; the pods' ranks follow their order.
    """

    levels: Required[
        Annotated[tuple[Annotated[str, limits(max_length=317)], ...], ATOMIC, limits(min_items=1, max_items=16)]
    ] = ()
    domains: tuple[TopologyDomainAssignment, ...]


class PodSetAssignment(Struct):
    """What a podset got.

    name: the podset.
    flavors: the flavor of each resource.
    resource_usage: what all its pods use together.
    count: pods that were counted; fewer than the podset has if it was admitted in part.
    topology_assignment: where the pods go.
    delayed_topology_request: Pending or Ready: whether places are still to be found, after the admission checks.
    """

    name: Required[_DefaultedPodSetName] = workload.MAIN_POD_SET
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

    cluster_queue: RequiredName = ""
    pod_set_assignments: Annotated[tuple[PodSetAssignment, ...], map_by("name"), limits(max_items=18)]


class WorkloadStatus(Struct):
    """How far a workload has come.

    conditions: observed aspects: QuotaReserved, Admitted, PodsReady, Evicted, Finished and others.
    admission: the quota that it holds.
    requeue_state: how often it went back to its queue.
    reclaimable_pods: pods whose quota is not needed any more.
    admission_checks: how its admission checks stand.
    resource_requests: what it asks for while it waits.
    accumulated_past_exexcution_time_seconds: how long it was admitted before, in all; misspelled for good.
    scheduling_stats: what has happened to it.
    nominated_cluster_names: clusters where it is tried.
    cluster_name: the cluster where it runs.
    unhealthy_nodes: nodes that its pods have to leave.
    """

    conditions: Conditions = ()
    admission: Admission | None = None
    requeue_state: workload.RequeueState | None = None
    reclaimable_pods: Annotated[tuple[workload.ReclaimablePod, ...], map_by("name"), limits(max_items=18)] = ()
    admission_checks: Annotated[tuple[workload.AdmissionCheckState, ...], map_by("name"), limits(max_items=8)] = ()
    resource_requests: Annotated[tuple[workload.PodSetRequest, ...], map_by("name"), limits(max_items=18)] = ()
    accumulated_past_exexcution_time_seconds: Int32 | None = None
    scheduling_stats: workload.SchedulingStats | None = None
    nominated_cluster_names: Annotated[
        tuple[Annotated[str, limits(max_length=256)], ...], ATOMIC, limits(max_items=20)
    ] = ()
    cluster_name: Annotated[str, limits(max_length=256)] | None = None
    unhealthy_nodes: Annotated[tuple[workload.UnhealthyNode, ...], map_by("name"), limits(max_items=8)] = ()


class Workload(Struct):
    """The pods of one job, which get quota all together or wait.

    metadata: what every object carries.
    spec: what it needs.
    status: how far it has come.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


WORKLOAD = Kind(GROUP, OLD_VERSION, "Workload", "workloads", Workload)
