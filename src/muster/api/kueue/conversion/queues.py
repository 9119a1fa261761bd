"""Convert ClusterQueues, LocalQueues and Cohorts from v1beta1 to v1beta2 and back."""

from muster.api.kueue.clusterqueue import MAY_STOP_SEARCH
from muster.api.kueue.v1beta1.clusterqueue import BORROW, PREEMPT
from muster.api.members import Json, remove_members, rename_member


def cluster_queue_spec_up(spec: Json) -> Json:
    """Convert a ClusterQueue's spec to v1beta2.

    `cohort` becomes `cohortName`, `admissionChecks` a strategy, and `Borrow` and `Preempt` become `MayStopSearch`.
    """
    result = rename_member(remove_members(spec, "admissionChecks", "admissionChecksStrategy"), "cohort", "cohortName")
    rules = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks")
    rules = rules or [{"name": name} for name in spec.get("admissionChecks") or ()]
    if rules:
        result["admissionChecksStrategy"] = {"admissionChecks": rules}
    fungibility = spec.get("flavorFungibility")
    if fungibility:
        result["flavorFungibility"] = {
            name: MAY_STOP_SEARCH if value in (BORROW, PREEMPT) else value for name, value in fungibility.items()
        }
    return result


def cluster_queue_spec_down(spec: Json) -> Json:
    """Convert a ClusterQueue's spec to v1beta1.

    The checks stay a strategy, which both versions have. The policy of concurrent admission is lost.
    """
    return rename_member(remove_members(spec, "concurrentAdmissionPolicy"), "cohortName", "cohort")


def cluster_queue_status_up(status: Json) -> Json:
    """Convert a ClusterQueue's status to v1beta2: remove the fields that v1beta2 does not report."""
    return without_consumption(remove_members(status, "pendingWorkloadsStatus"))


def without_consumption(status: Json) -> Json:
    """Return the status of a ClusterQueue or Cohort without the past usage, which only LocalQueues have."""
    share = status.get("fairSharing")
    if not share or "admissionFairSharingStatus" not in share:
        return status
    return status | {"fairSharing": remove_members(share, "admissionFairSharingStatus")}


def local_queue_status_up(status: Json) -> Json:
    """Convert a LocalQueue's status to v1beta2: remove the list of flavors, and rename the usage of flavors."""
    return rename_member(remove_members(status, "flavors"), "flavorUsage", "flavorsUsage")


def local_queue_status_down(status: Json) -> Json:
    """Convert a LocalQueue's status to v1beta1: give the usage of flavors its old name."""
    return rename_member(status, "flavorsUsage", "flavorUsage")
