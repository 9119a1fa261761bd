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
    """Where a LocalQueue's workloads get their quota.

    cluster_queue: the ClusterQueue; it never changes.
    stop_policy: None, Hold (nothing new is admitted) or HoldAndDrain (what is admitted is evicted, too).
    fair_sharing: weight among the LocalQueues of the ClusterQueue.
    """

    cluster_queue: ObjectName = ""
    stop_policy: StopPolicy = STOP_NONE
    fair_sharing: FairSharing | None = None


class LocalQueueStatus(Struct):
    """What was observed of a LocalQueue.

    conditions: observed aspects: Active.
    pending_workloads: workloads that wait.
    reserving_workloads: workloads that hold quota.
    admitted_workloads: workloads that are admitted and not finished.
    flavors_reservation: quota reserved, by flavor.
    flavors_usage: quota of admitted workloads, by flavor.
    fair_sharing: what fair sharing makes of it.
    """

    conditions: Conditions = ()
    pending_workloads: Int32 | None = None
    reserving_workloads: Int32 | None = None
    admitted_workloads: Int32 | None = None
    flavors_reservation: Annotated[tuple[LocalQueueFlavorUsage, ...], map_by("name"), limits(max_items=64)] = ()
    flavors_usage: Annotated[tuple[LocalQueueFlavorUsage, ...], map_by("name"), limits(max_items=64)] = ()
    fair_sharing: LocalQueueFairSharingStatus | None = None


class LocalQueue(Struct):
    """Where users of a namespace submit their jobs.

    metadata: what every object carries.
    spec: the ClusterQueue behind it.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()


class CohortSpec(Struct):
    """A node of the tree in which quota is shared.

    parent_name: the cohort above; none if empty.
    resource_groups: quota for everybody below, in addition to their own.
    fair_sharing: weight among the children of its parent.
    """

    parent_name: ObjectName = ""
    resource_groups: ResourceGroups = ()
    fair_sharing: FairSharing | None = None


class CohortStatus(Struct):
    """What was observed of a Cohort.

    fair_sharing: what fair sharing makes of it.
    """

    fair_sharing: FairSharingStatus | None = None


class Cohort(Struct):
    """ClusterQueues and other Cohorts that share what they do not use.

    metadata: what every object carries.
    spec: its place in the tree, and its own quota.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: CohortSpec = CohortSpec()
    status: CohortStatus = CohortStatus()


class ResourceFlavorSpec(Struct):
    """What the nodes of a flavor have in common.

    node_labels: labels of the nodes; pods that get the flavor run on such nodes only.
    node_taints: taints of the nodes; workloads must tolerate them to get the flavor.
    tolerations: given to the pods that get the flavor.
    topology_name: the Topology of the nodes.
    """

    node_labels: Annotated[dict[str, str], ATOMIC_MAP, limits(max_properties=8)] = {}
    node_taints: Annotated[tuple[Taint, ...], ATOMIC, limits(max_items=8)] = ()
    tolerations: Annotated[tuple[Toleration, ...], ATOMIC, limits(max_items=8)] = ()
    topology_name: ObjectName = ""


class ResourceFlavor(Struct):
    """A sort of nodes that quota is counted by.

    metadata: what every object carries.
    spec: what its nodes have in common.
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

    levels: from the widest to the narrowest.
    """

    levels: Required[Annotated[tuple[TopologyLevel, ...], ATOMIC, limits(min_items=1, max_items=16)]] = ()


class Topology(Struct):
    """How nodes stand together: blocks, racks, hosts.

    metadata: what every object carries.
    spec: its levels.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: TopologySpec = TopologySpec()


class WorkloadPriorityClass(Struct):
    """A name for a priority in queues, which does not touch the priority of pods.

    metadata: what every object carries.
    value: the priority; the greater, the sooner.
    description: for whom the class is.
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
