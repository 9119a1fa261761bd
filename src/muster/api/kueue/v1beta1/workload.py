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

# The sources of a workload's priority class.
WORKLOAD_PRIORITY_SOURCE: Final = "kueue.x-k8s.io/workloadpriorityclass"
POD_PRIORITY_SOURCE: Final = "scheduling.k8s.io/priorityclass"

_Count = Annotated[Int32, limits(minimum=0)]
_DefaultedPodSetName = Annotated[str, limits(max_length=63, pattern=LABEL), DEFAULTED]


class PodSetTopologyRequest(Struct):
    """The request how close together the pods of a podset must be.

    required: the level of which one domain must have all pods.
    preferred: the level of which one domain should have all pods, or else as few wider domains as possible.
    unconstrained: whether any placement with room for all pods is allowed.
    pod_index_label: the label with the index of a pod.
    sub_group_index_label: the label with the index of a pod's group, such as a replicated Job.
    sub_group_count: the number of such groups.
    pod_set_group_name: podsets of the same group are placed together.
    pod_set_slice_required_topology: the level of which one domain must have all pods of a slice.
    pod_set_slice_size: the number of pods in a slice.
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
    """A set of identical pods of a workload.

    name: a name that is unique in the workload.
    template: the template of the pods.
    count: the number of pods.
    min_count: the least number of pods with which the job runs; if absent, it needs all.
    topology_request: the request how close together the pods must be.
    """

    name: _DefaultedPodSetName = workload.MAIN_POD_SET
    template: Required[PodTemplateSpec] = PodTemplateSpec()
    count: Required[Annotated[_Count, DEFAULTED]] = 1
    min_count: Annotated[Int32, limits(minimum=1)] | None = None
    topology_request: PodSetTopologyRequest | None = None


class WorkloadSpec(Struct):
    """The demand of a workload, and its queue.

    pod_sets: the pods.
    queue_name: the LocalQueue, in the same namespace.
    priority_class_name: the class of the priority.
    priority_class_source: the kind of the class. Without it the name has no meaning.
    priority: the priority; a higher one comes first.
    active: whether the workload may be admitted. An admitted workload that becomes inactive is evicted.
    maximum_execution_time_seconds: the time after its admission when the workload is deactivated.
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
    """The number of pods in one domain.

    values: the values of the levels that name the domain.
    count: the number of pods.
    """

    values: Required[Annotated[tuple[str, ...], ATOMIC, limits(min_items=1, max_items=16)]] = ()
    count: Annotated[Int32, limits(minimum=1)]


class TopologyAssignment(Struct):
    """The domains to which the pods of a podset are assigned.

    levels: the labels of the levels that name a domain, from the widest to the narrowest.
    domains: the domains with their pods, in the order of the pods' ranks.
    """

    levels: Required[
        Annotated[tuple[Annotated[str, limits(max_length=317)], ...], ATOMIC, limits(min_items=1, max_items=16)]
    ] = ()
    domains: tuple[TopologyDomainAssignment, ...]


class PodSetAssignment(Struct):
    """The quota and the placement that a podset got.

    name: the podset.
    flavors: the flavor of each resource.
    resource_usage: the usage of all its pods together.
    count: the number of admitted pods, which is less than that of the podset after a partial admission.
    topology_assignment: the placement of the pods.
    delayed_topology_request: whether the placement waits for the admission checks: Pending or Ready.
    """

    name: Required[_DefaultedPodSetName] = workload.MAIN_POD_SET
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

    cluster_queue: RequiredName = ""
    pod_set_assignments: Annotated[tuple[PodSetAssignment, ...], map_by("name"), limits(max_items=18)]


class WorkloadStatus(Struct):
    """The observed state of a workload.

    conditions: observed aspects: QuotaReserved, Admitted, PodsReady, Evicted, Finished and others.
    admission: the quota that the workload holds.
    requeue_state: the number of requeues, and the time of the next one.
    reclaimable_pods: the pods that no longer need their quota.
    admission_checks: the states of the admission checks.
    resource_requests: the requests of a waiting workload.
    accumulated_past_exexcution_time_seconds: the total time of earlier admissions (upstream's misspelling).
    scheduling_stats: the counts of evictions.
    nominated_cluster_names: the clusters that try the workload.
    cluster_name: the cluster where the workload runs.
    unhealthy_nodes: the nodes that its pods have to leave.
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
    """The pods of one job, which get their quota together or wait.

    metadata: the standard metadata of an object.
    spec: the demand of the workload, and its queue.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


WORKLOAD = Kind(GROUP, OLD_VERSION, "Workload", "workloads", Workload)
