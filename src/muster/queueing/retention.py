"""Until when objects are kept that nobody needs any more (`objectRetentionPolicies`)."""

from datetime import datetime, timedelta

from muster.api.config.types import WorkloadRetention
from muster.api.kueue import Workload
from muster.api.kueue.names import DEACTIVATED_DUE_TO, EVICTED, FINISHED
from muster.queueing.conditions import find_true


def workload_kept_until(workload: Workload, policy: WorkloadRetention) -> datetime | None:
    """When a finished workload is to be deleted; None if it is not."""
    finished = find_true(workload.status.conditions, FINISHED)
    if finished is None or finished.last_transition_time is None or policy.after_finished is None:
        return None
    return finished.last_transition_time + timedelta(microseconds=policy.after_finished // 1000)


def job_kept_until(workload: Workload, policy: WorkloadRetention) -> datetime | None:
    """When the job of a workload that was deactivated by us, not by a user, is to be deleted; None if it is not.

    The job, since a workload that is gone while its job is there would only be made anew.
    """
    evicted = find_true(workload.status.conditions, EVICTED)
    if workload.spec.active or evicted is None or evicted.last_transition_time is None:
        return None
    if policy.after_deactivated_by_kueue is None or not evicted.reason.startswith(DEACTIVATED_DUE_TO):
        return None
    return evicted.last_transition_time + timedelta(microseconds=policy.after_deactivated_by_kueue // 1000)
