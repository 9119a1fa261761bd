"""The ClusterQueue: quota, and the rules by which workloads get it."""

from typing import Annotated

from muster.api.kinds import Kind
from muster.api.kueue.fields import GROUP, VERSION, Conditions, ObjectName, RequiredCheckName
from muster.api.kueue.quotas import FairSharing, FairSharingStatus, FlavorUsage, ResourceGroups
from muster.api.markers import DEFAULTED, SET, Int32, Required, limits, map_by, one_of
from muster.api.meta import LabelSelector, ObjectMeta, Struct

# The values of fields of the spec.
STRICT_FIFO = "StrictFIFO"
BEST_EFFORT_FIFO = "BestEffortFIFO"
STOP_NONE = "None"
HOLD = "Hold"
HOLD_AND_DRAIN = "HoldAndDrain"
NEVER = "Never"
ANY = "Any"
LOWER_PRIORITY = "LowerPriority"
LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"
MAY_STOP_SEARCH = "MayStopSearch"
TRY_NEXT_FLAVOR = "TryNextFlavor"
BORROWING_OVER_PREEMPTION = "BorrowingOverPreemption"
PREEMPTION_OVER_BORROWING = "PreemptionOverBorrowing"
USAGE_BASED_ADMISSION = "UsageBasedAdmissionFairSharing"
NO_ADMISSION_FAIR_SHARING = "NoAdmissionFairSharing"
TRY_PREFERRED_FLAVORS = "TryPreferredFlavors"
RETAIN_FIRST_ADMISSION = "RetainFirstAdmission"

StopPolicy = Annotated[str, one_of(STOP_NONE, HOLD, HOLD_AND_DRAIN), DEFAULTED]


class FlavorFungibility(Struct):
    """The choice between the next flavor and borrowing or preempting in the current one.

    when_can_borrow: MayStopSearch, or TryNextFlavor: what to do if the workload fits by borrowing.
    when_can_preempt: MayStopSearch, or TryNextFlavor: what to do if the workload fits by preempting.
    preference: BorrowingOverPreemption or PreemptionOverBorrowing; only with TryNextFlavor for both.
    """

    when_can_borrow: Annotated[str, one_of(MAY_STOP_SEARCH, TRY_NEXT_FLAVOR), DEFAULTED] = MAY_STOP_SEARCH
    when_can_preempt: Annotated[str, one_of(MAY_STOP_SEARCH, TRY_NEXT_FLAVOR), DEFAULTED] = TRY_NEXT_FLAVOR
    preference: Annotated[str, one_of(BORROWING_OVER_PREEMPTION, PREEMPTION_OVER_BORROWING)] | None = None


class BorrowWithinCohort(Struct):
    """The preemption in other ClusterQueues by a workload that borrows.

    policy: Never, or LowerPriority.
    max_priority_threshold: the highest priority of workloads to preempt; any lower priority if absent.
    """

    policy: Annotated[str, one_of(NEVER, LOWER_PRIORITY), DEFAULTED] = NEVER
    max_priority_threshold: Int32 | None = None


class ClusterQueuePreemption(Struct):
    """The workloads that a workload may preempt.

    reclaim_within_cohort: the borrowing workloads of other ClusterQueues: Never, LowerPriority or Any.
    borrow_within_cohort: the preemption by a workload that borrows.
    within_cluster_queue: the workloads of the same ClusterQueue: Never, LowerPriority or LowerOrNewerEqualPriority.
    """

    reclaim_within_cohort: Annotated[str, one_of(NEVER, LOWER_PRIORITY, ANY), DEFAULTED] = NEVER
    borrow_within_cohort: Annotated[BorrowWithinCohort, DEFAULTED] = BorrowWithinCohort()
    within_cluster_queue: Annotated[
        str, one_of(NEVER, LOWER_PRIORITY, LOWER_OR_NEWER_EQUAL_PRIORITY), DEFAULTED
    ] = NEVER  # fmt: skip


class AdmissionCheckStrategyRule(Struct):
    """A check that workloads must pass.

    name: the AdmissionCheck.
    on_flavors: the flavors whose workloads must pass the check; all if empty.
    """

    name: RequiredCheckName = ""
    on_flavors: Annotated[tuple[ObjectName, ...], SET, limits(max_items=64)] = ()


class AdmissionChecksStrategy(Struct):
    """The checks that workloads must pass.

    admission_checks: the checks.
    """

    admission_checks: Required[
        Annotated[tuple[AdmissionCheckStrategyRule, ...], map_by("name"), limits(min_items=1, max_items=64)]
    ] = ()


class AdmissionScope(Struct):
    """The way in which the LocalQueues of a ClusterQueue share it.

    admission_mode: UsageBasedAdmissionFairSharing or NoAdmissionFairSharing.
    """

    admission_mode: Annotated[Required[str], one_of(USAGE_BASED_ADMISSION, NO_ADMISSION_FAIR_SHARING)] = ""


class ConcurrentAdmissionConstraints(Struct):
    """The limit of the migration of a workload.

    last_acceptable_flavor_name: the last flavor to try.
    """

    last_acceptable_flavor_name: ObjectName = ""


class ConcurrentAdmissionMigration(Struct):
    """The migration of an admitted workload to a better flavor.

    mode: TryPreferredFlavors or RetainFirstAdmission.
    constraints: the limit of the migration.
    """

    mode: Annotated[
        Required[str], one_of(TRY_PREFERRED_FLAVORS, RETAIN_FIRST_ADMISSION), limits(max_length=253)
    ] = ""  # fmt: skip
    constraints: ConcurrentAdmissionConstraints | None = None


class ConcurrentAdmissionPolicy(Struct):
    """The policy of trying a workload in several flavors at once.

    migration: the migration of an admitted workload to a better flavor.
    """

    migration: Required[ConcurrentAdmissionMigration] = ConcurrentAdmissionMigration()


class ClusterQueueSpec(Struct):
    """The quota of a ClusterQueue, and the rules by which workloads get it.

    resource_groups: the quotas. A workload gets one flavor of each group.
    cohort_name: the cohort with which unused quota is shared.
    queueing_strategy: BestEffortFIFO, or StrictFIFO, in which a workload that does not fit blocks newer ones.
    namespace_selector: the namespaces whose LocalQueues may use it; none if absent, all if empty.
    flavor_fungibility: the choice between the next flavor and borrowing or preempting.
    preemption: the workloads that a workload may preempt.
    admission_checks_strategy: the checks that workloads must pass.
    stop_policy: None, Hold (admits no workload) or HoldAndDrain (also evicts the admitted workloads).
    fair_sharing: the weight in the sharing of unused quota.
    admission_scope: the way in which the LocalQueues share the quota.
    concurrent_admission_policy: the policy of trying a workload in several flavors at once.
    """

    resource_groups: ResourceGroups = ()
    cohort_name: ObjectName = ""
    queueing_strategy: Annotated[str, one_of(STRICT_FIFO, BEST_EFFORT_FIFO), DEFAULTED] = BEST_EFFORT_FIFO
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: Annotated[FlavorFungibility, DEFAULTED] = FlavorFungibility()
    preemption: Annotated[ClusterQueuePreemption, DEFAULTED] = ClusterQueuePreemption()
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: StopPolicy = STOP_NONE
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None
    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None


class ClusterQueueStatus(Struct):
    """The observed state of a ClusterQueue.

    conditions: observed aspects: Active.
    flavors_reservation: the reserved quota by flavor.
    flavors_usage: the quota of admitted workloads by flavor.
    pending_workloads: the number of workloads that wait.
    reserving_workloads: the number of workloads that hold quota.
    admitted_workloads: the number of admitted workloads that are not finished.
    fair_sharing: the share of the ClusterQueue in fair sharing.
    """

    conditions: Conditions = ()
    flavors_reservation: Annotated[tuple[FlavorUsage, ...], map_by("name"), limits(max_items=64)] = ()
    flavors_usage: Annotated[tuple[FlavorUsage, ...], map_by("name"), limits(max_items=64)] = ()
    pending_workloads: Int32 | None = None
    reserving_workloads: Int32 | None = None
    admitted_workloads: Int32 | None = None
    fair_sharing: FairSharingStatus | None = None


class ClusterQueue(Struct):
    """Quota for the workloads of some namespaces, and the rules by which they get it.

    metadata: the standard metadata of an object.
    spec: the quota and the rules.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


CLUSTER_QUEUE = Kind(GROUP, VERSION, "ClusterQueue", "clusterqueues", ClusterQueue, namespaced=False)
