# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The kinds around ClusterQueues: LocalQueue, Cohort, ResourceFlavor, Topology, WorkloadPriorityClass."""

from typing import Annotated

from muster.api.core import Taint, Toleration
from muster.api.kinds import Kind
from muster.api.kueue.clusterqueue import STOP_NONE, StopPolicy
from muster.api.kueue.fields import GROUP, QUALIFIED_NAME, VERSION, Conditions, ObjectName
from muster.api.kueue.quotas import (
    FairSharing,
    FairSharingStatus,
    LocalQueueFairSharingStatus,
    LocalQueueFlavorUsage,
    ResourceGroups,
)
from muster.api.markers import ATOMIC, ATOMIC_MAP, Int32, Required, limits, map_by
from muster.api.meta import ObjectMeta, Struct


class LocalQueueSpec(Struct):
    """The source of the quota of a LocalQueue's workloads.

    cluster_queue: the ClusterQueue, which never changes.
    stop_policy: None, Hold (admits no workload) or HoldAndDrain (also evicts the admitted workloads).
    fair_sharing: the weight among the LocalQueues of the ClusterQueue.
    """

    cluster_queue: ObjectName = ""
    stop_policy: StopPolicy = STOP_NONE
    fair_sharing: FairSharing | None = None


class LocalQueueStatus(Struct):
    """The observed state of a LocalQueue.

    conditions: observed aspects: Active.
    pending_workloads: the number of workloads that wait.
    reserving_workloads: the number of workloads that hold quota.
    admitted_workloads: the number of admitted workloads that are not finished.
    flavors_reservation: the reserved quota by flavor.
    flavors_usage: the quota of admitted workloads by flavor.
    fair_sharing: the share of the LocalQueue in fair sharing.
    """

    conditions: Conditions = ()
    pending_workloads: Int32 | None = None
    reserving_workloads: Int32 | None = None
    admitted_workloads: Int32 | None = None
    flavors_reservation: Annotated[tuple[LocalQueueFlavorUsage, ...], map_by("name"), limits(max_items=64)] = ()
    flavors_usage: Annotated[tuple[LocalQueueFlavorUsage, ...], map_by("name"), limits(max_items=64)] = ()
    fair_sharing: LocalQueueFairSharingStatus | None = None


class LocalQueue(Struct):
    """The queue to which users of a namespace submit their jobs.

    metadata: the standard metadata of an object.
    spec: the ClusterQueue behind it.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()


class CohortSpec(Struct):
    """A node of the tree in which quota is shared.

    parent_name: the parent cohort; none if empty.
    resource_groups: the quota for all queues and cohorts below, in addition to their own.
    fair_sharing: the weight among the children of its parent.
    """

    parent_name: ObjectName = ""
    resource_groups: ResourceGroups = ()
    fair_sharing: FairSharing | None = None


class CohortStatus(Struct):
    """The observed state of a Cohort.

    fair_sharing: the share of the Cohort in fair sharing.
    """

    fair_sharing: FairSharingStatus | None = None


class Cohort(Struct):
    """A group of ClusterQueues and other Cohorts that share their unused quota.

    metadata: the standard metadata of an object.
    spec: its place in the tree, and its own quota.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: CohortSpec = CohortSpec()
    status: CohortStatus = CohortStatus()


class ResourceFlavorSpec(Struct):
    """The common properties of the nodes of a flavor.

    node_labels: the labels of the nodes; pods that get the flavor run only on such nodes.
    node_taints: the taints of the nodes; workloads must tolerate them to get the flavor.
    tolerations: the tolerations that pods with the flavor get.
    topology_name: the Topology of the nodes.
    """

    node_labels: Annotated[dict[str, str], ATOMIC_MAP, limits(max_properties=8)] = {}
    node_taints: Annotated[tuple[Taint, ...], ATOMIC, limits(max_items=8)] = ()
    tolerations: Annotated[tuple[Toleration, ...], ATOMIC, limits(max_items=8)] = ()
    topology_name: ObjectName = ""


class ResourceFlavor(Struct):
    """A kind of nodes by which quota is counted.

    metadata: the standard metadata of an object.
    spec: the common properties of its nodes.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class TopologyLevel(Struct):
    """One level of a topology.

    node_label: the label whose values are the places of this level, such as racks.
    """

    node_label: Annotated[Required[str], limits(min_length=1, max_length=316, pattern=QUALIFIED_NAME)] = ""


class TopologySpec(Struct):
    """The levels of a topology.

    levels: the levels from the widest to the narrowest.
    """

    levels: Required[Annotated[tuple[TopologyLevel, ...], ATOMIC, limits(min_items=1, max_items=16)]] = ()


class Topology(Struct):
    """The structure of a data center: blocks, racks, hosts.

    metadata: the standard metadata of an object.
    spec: its levels.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: TopologySpec = TopologySpec()


class WorkloadPriorityClass(Struct):
    """A name for a priority in queues, which does not change the priority of pods.

    metadata: the standard metadata of an object.
    value: the priority; a higher one comes first.
    description: the purpose of the class.
    """

    metadata: ObjectMeta = ObjectMeta()
    value: Int32
    description: Annotated[str, limits(max_length=2048)] = ""


LOCAL_QUEUE = Kind(GROUP, VERSION, "LocalQueue", "localqueues", LocalQueue)
COHORT = Kind(GROUP, VERSION, "Cohort", "cohorts", Cohort, namespaced=False)
RESOURCE_FLAVOR = Kind(GROUP, VERSION, "ResourceFlavor", "resourceflavors", ResourceFlavor, namespaced=False)
TOPOLOGY = Kind(GROUP, VERSION, "Topology", "topologies", Topology, namespaced=False)
WORKLOAD_PRIORITY_CLASS = Kind(
    GROUP, VERSION, "WorkloadPriorityClass", "workloadpriorityclasses", WorkloadPriorityClass, namespaced=False
)
