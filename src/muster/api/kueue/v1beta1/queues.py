# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The LocalQueue, Cohort, ResourceFlavor, Topology and WorkloadPriorityClass of v1beta1."""

from typing import Annotated

from muster.api.core import Taint
from muster.api.kinds import Kind
from muster.api.kueue import queues
from muster.api.kueue.fields import GROUP, OLD_VERSION, Conditions, RequiredName
from muster.api.kueue.quotas import LocalQueueFairSharingStatus, LocalQueueFlavorUsage
from muster.api.markers import ATOMIC, ATOMIC_MAP, SET, Int32, Required, limits, map_by
from muster.api.meta import ObjectMeta, Struct


class TopologyInfo(Struct):
    """The Topology of a flavor.

    name: the name of the Topology.
    levels: the labels of its levels.
    """

    name: RequiredName = ""
    levels: Required[Annotated[tuple[str, ...], ATOMIC, limits(min_items=1, max_items=16)]] = ()


class LocalQueueFlavorStatus(Struct):
    """A flavor that the LocalQueue's workloads can get. Obsolete: no controller sets it.

    name: the flavor.
    resources: the resources of the flavor.
    node_labels: the labels of its nodes.
    node_taints: the taints of its nodes.
    topology: its Topology.
    """

    name: RequiredName = ""
    resources: Annotated[tuple[str, ...], SET, limits(max_items=64)] = ()
    node_labels: Annotated[dict[str, str], ATOMIC_MAP, limits(max_properties=8)] = {}
    node_taints: Annotated[tuple[Taint, ...], ATOMIC, limits(max_items=8)] = ()
    topology: TopologyInfo | None = None


class LocalQueueStatus(Struct):
    """The observed state of a LocalQueue.

    conditions: observed aspects: Active.
    pending_workloads: the number of workloads that wait.
    reserving_workloads: the number of workloads that hold quota.
    admitted_workloads: the number of admitted workloads that are not finished.
    flavors_reservation: the reserved quota by flavor.
    flavor_usage: the quota of admitted workloads by flavor.
    flavors: the flavors that its workloads can get. Obsolete: no controller sets it.
    fair_sharing: the share of the LocalQueue in fair sharing.
    """

    conditions: Conditions = ()
    pending_workloads: Int32 | None = None
    reserving_workloads: Int32 | None = None
    admitted_workloads: Int32 | None = None
    flavors_reservation: Annotated[tuple[LocalQueueFlavorUsage, ...], map_by("name"), limits(max_items=64)] = ()
    flavor_usage: Annotated[tuple[LocalQueueFlavorUsage, ...], map_by("name"), limits(max_items=64)] = ()
    flavors: Annotated[tuple[LocalQueueFlavorStatus, ...], map_by("name"), limits(max_items=64)] = ()
    fair_sharing: LocalQueueFairSharingStatus | None = None


class LocalQueue(Struct):
    """The queue to which users of a namespace submit their jobs.

    metadata: the standard metadata of an object.
    spec: the ClusterQueue behind it.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: queues.LocalQueueSpec = queues.LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()


class CohortStatus(Struct):
    """The observed state of a Cohort.

    fair_sharing: the share of the Cohort in fair sharing.
    """

    fair_sharing: LocalQueueFairSharingStatus | None = None


class Cohort(Struct):
    """A group of ClusterQueues and other Cohorts that share their unused quota.

    metadata: the standard metadata of an object.
    spec: its place in the tree, and its own quota.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: queues.CohortSpec = queues.CohortSpec()
    status: CohortStatus = CohortStatus()


class ResourceFlavor(queues.ResourceFlavor):
    """A kind of nodes by which quota is counted."""


class Topology(queues.Topology):
    """The structure of a data center: blocks, racks, hosts."""


class WorkloadPriorityClass(queues.WorkloadPriorityClass):
    """A name for a priority in queues, which does not change the priority of pods."""


LOCAL_QUEUE = Kind(GROUP, OLD_VERSION, "LocalQueue", "localqueues", LocalQueue)
COHORT = Kind(GROUP, OLD_VERSION, "Cohort", "cohorts", Cohort, namespaced=False)
RESOURCE_FLAVOR = Kind(GROUP, OLD_VERSION, "ResourceFlavor", "resourceflavors", ResourceFlavor, namespaced=False)
TOPOLOGY = Kind(GROUP, OLD_VERSION, "Topology", "topologies", Topology, namespaced=False)
WORKLOAD_PRIORITY_CLASS = Kind(
    GROUP, OLD_VERSION, "WorkloadPriorityClass", "workloadpriorityclasses", WorkloadPriorityClass, namespaced=False
)
