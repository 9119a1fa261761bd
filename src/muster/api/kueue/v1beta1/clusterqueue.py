"""The ClusterQueue of v1beta1."""

from datetime import datetime
from typing import Annotated, Final

from muster.api.kinds import Kind
from muster.api.kueue import clusterqueue
from muster.api.kueue.fields import GROUP, OLD_VERSION, Conditions, ObjectName
from muster.api.kueue.quotas import FairSharing, FlavorUsage, LocalQueueFairSharingStatus, ResourceGroups
from muster.api.markers import ATOMIC, DEFAULTED, Int32, Required, limits, map_by, one_of
from muster.api.meta import LabelSelector, ObjectMeta, Struct

# The old words for MayStopSearch.
BORROW: Final = "Borrow"
PREEMPT: Final = "Preempt"


class FlavorFungibility(Struct):
    """The choice between the next flavor and borrowing or preempting in the current one.

    when_can_borrow: MayStopSearch (Borrow), or TryNextFlavor: what to do if the workload fits by borrowing.
    when_can_preempt: MayStopSearch (Preempt), or TryNextFlavor: what to do if the workload fits by preempting.
    preference: BorrowingOverPreemption or PreemptionOverBorrowing; only with TryNextFlavor for both.
    """

    when_can_borrow: Annotated[str, one_of("MayStopSearch", "TryNextFlavor", BORROW), DEFAULTED] = "MayStopSearch"
    when_can_preempt: Annotated[str, one_of("MayStopSearch", "TryNextFlavor", PREEMPT), DEFAULTED] = "TryNextFlavor"
    preference: Annotated[str, one_of("BorrowingOverPreemption", "PreemptionOverBorrowing")] | None = None


class AdmissionChecksStrategy(Struct):
    """The checks that workloads must pass.

    admission_checks: the checks.
    """

    admission_checks: Annotated[
        tuple[clusterqueue.AdmissionCheckStrategyRule, ...], map_by("name"), limits(max_items=64)
    ] = ()


class ClusterQueueSpec(Struct):
    """The quota of a ClusterQueue, and the rules by which workloads get it.

    resource_groups: the quotas. A workload gets one flavor of each group.
    cohort: the cohort with which unused quota is shared.
    queueing_strategy: BestEffortFIFO, or StrictFIFO, in which a workload that does not fit blocks newer ones.
    namespace_selector: the namespaces whose LocalQueues may use it; none if absent, all if empty.
    flavor_fungibility: the choice between the next flavor and borrowing or preempting.
    preemption: the workloads that a workload may preempt.
    admission_checks: the checks that workloads of all flavors must pass.
    admission_checks_strategy: the checks by flavor. Only one of the two fields may be set.
    stop_policy: None, Hold (admits no workload) or HoldAndDrain (also evicts the admitted workloads).
    fair_sharing: the weight in the sharing of unused quota.
    admission_scope: the way in which the LocalQueues share the quota.
    """

    resource_groups: ResourceGroups = ()
    cohort: ObjectName = ""
    queueing_strategy: Annotated[str, one_of("StrictFIFO", "BestEffortFIFO"), DEFAULTED] = "BestEffortFIFO"
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: Annotated[FlavorFungibility, DEFAULTED] = FlavorFungibility()
    preemption: Annotated[clusterqueue.ClusterQueuePreemption, DEFAULTED] = clusterqueue.ClusterQueuePreemption()
    admission_checks: tuple[Annotated[str, limits(max_length=316)], ...] = ()
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: clusterqueue.StopPolicy = clusterqueue.STOP_NONE
    fair_sharing: FairSharing | None = None
    admission_scope: clusterqueue.AdmissionScope | None = None


class ClusterQueuePendingWorkload(Struct):
    """A workload that waits.

    name: the name of the workload.
    namespace: the namespace of the workload.
    """

    name: Required[str] = ""
    namespace: Required[str] = ""


class ClusterQueuePendingWorkloadsStatus(Struct):
    """The first workloads that wait. Obsolete: no controller sets it.

    cluster_queue_pending_workload: the workloads.
    last_change_time: when the list last changed.
    """

    cluster_queue_pending_workload: Annotated[tuple[ClusterQueuePendingWorkload, ...], ATOMIC] = ()
    last_change_time: Required[datetime | None] = None


class ClusterQueueStatus(Struct):
    """The observed state of a ClusterQueue.

    conditions: observed aspects: Active.
    flavors_reservation: the reserved quota by flavor.
    flavors_usage: the quota of admitted workloads by flavor.
    pending_workloads: the number of workloads that wait.
    reserving_workloads: the number of workloads that hold quota.
    admitted_workloads: the number of admitted workloads that are not finished.
    pending_workloads_status: the first workloads that wait. Obsolete: no controller sets it.
    fair_sharing: the share of the ClusterQueue in fair sharing.
    """

    conditions: Conditions = ()
    flavors_reservation: Annotated[tuple[FlavorUsage, ...], map_by("name"), limits(max_items=64)] = ()
    flavors_usage: Annotated[tuple[FlavorUsage, ...], map_by("name"), limits(max_items=64)] = ()
    pending_workloads: Int32 | None = None
    reserving_workloads: Int32 | None = None
    admitted_workloads: Int32 | None = None
    pending_workloads_status: ClusterQueuePendingWorkloadsStatus | None = None
    fair_sharing: LocalQueueFairSharingStatus | None = None


class ClusterQueue(Struct):
    """Quota for the workloads of some namespaces, and the rules by which they get it.

    metadata: the standard metadata of an object.
    spec: the quota and the rules.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


CLUSTER_QUEUE = Kind(GROUP, OLD_VERSION, "ClusterQueue", "clusterqueues", ClusterQueue, namespaced=False)
