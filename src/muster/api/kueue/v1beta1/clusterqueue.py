"""The ClusterQueue of v1beta1."""

from datetime import datetime
from typing import Annotated, Final

from muster.api.kinds import Kind
from muster.api.kueue import clusterqueue
from muster.api.kueue.fields import GROUP, OLD_VERSION, Conditions, ObjectName
from muster.api.kueue.quotas import FairSharing, FlavorUsage, LocalQueueFairSharingStatus, ResourceGroups
from muster.api.markers import ATOMIC, DEFAULTED, Int32, Required, limits, map_by, one_of
from muster.api.meta import LabelSelector, ObjectMeta, Struct

# Old words, both of which are MayStopSearch now.
BORROW: Final = "Borrow"
PREEMPT: Final = "Preempt"


class FlavorFungibility(Struct):
    """When the next flavor is tried instead of borrowing or preempting in this one.

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
    """Quota, and the rules by which workloads get it.

    resource_groups: the quotas; workloads get one flavor of each group.
    cohort: the cohort with which unused quota is shared.
    queueing_strategy: BestEffortFIFO, or StrictFIFO: a workload that does not fit blocks younger ones.
    namespace_selector: whose LocalQueues may use it; none if absent, all if empty.
    flavor_fungibility: when the next flavor is tried.
    preemption: which workloads may be preempted.
    admission_checks: the checks that workloads must pass, whatever their flavors.
    admission_checks_strategy: the same, by flavor; only one of the two.
    stop_policy: None, Hold (nothing new is admitted) or HoldAndDrain (what is admitted is evicted, too).
    fair_sharing: weight when unused quota is shared.
    admission_scope: how its LocalQueues share it.
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

    name: its name.
    namespace: its namespace.
    """

    name: Required[str] = ""
    namespace: Required[str] = ""


class ClusterQueuePendingWorkloadsStatus(Struct):
    """The first workloads that wait; not reported any more.

    cluster_queue_pending_workload: the workloads.
    last_change_time: when the list last changed.
    """

    cluster_queue_pending_workload: Annotated[tuple[ClusterQueuePendingWorkload, ...], ATOMIC] = ()
    last_change_time: Required[datetime | None] = None


class ClusterQueueStatus(Struct):
    """What was observed of a ClusterQueue.

    conditions: observed aspects: Active.
    flavors_reservation: quota reserved, by flavor.
    flavors_usage: quota of admitted workloads, by flavor.
    pending_workloads: workloads that wait.
    reserving_workloads: workloads that hold quota.
    admitted_workloads: workloads that are admitted and not finished.
    pending_workloads_status: the first workloads that wait; not reported any more.
    fair_sharing: what fair sharing makes of it.
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

    metadata: what every object carries.
    spec: the quota and the rules.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


CLUSTER_QUEUE = Kind(GROUP, OLD_VERSION, "ClusterQueue", "clusterqueues", ClusterQueue, namespaced=False)
