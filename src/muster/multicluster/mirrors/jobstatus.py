"""Convert the status of a Job in a worker into one that the manager's API server accepts. Pure.

The server requires of every Job that final conditions stay, that counters never decrease, and that the start time stays
unless the Job is suspended. A Job that restarts in another cluster begins at 0, so its local counters stay until the
new ones exceed them. Its finish is shown only when it is final. Workers before Kubernetes 1.31 finish Jobs without the
interim conditions, so these are added. Other values are corrected, because a worker may send anything.
"""

from datetime import datetime

from msgspec.structs import replace

from muster.api.batch import INDEXED, Job, JobCondition, JobStatus, UncountedTerminatedPods
from muster.api.conditions import find_true
from muster.api.validation.jobs.job import validate_status_update
from muster.api.values.indexes import Indexes
from muster.jobs.job.conditions import (
    COMPLETE,
    FAILED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    SUSPENDED,
    Conditions,
    ensure,
    finish,
)

# The interim condition, by the terminal condition.
_ANNOUNCED_BY = {COMPLETE: SUCCESS_CRITERIA_MET, FAILED: FAILURE_TARGET}
_FINAL = frozenset((*_ANNOUNCED_BY, *_ANNOUNCED_BY.values()))

_MOST = 2**31 - 1  # the maximum of the API's counters


def mirror_status(local: Job, remote: Job) -> JobStatus:
    """Return the local status updated from the remote one; unchanged if the server would refuse it."""
    end = finish(remote)
    status = _mirror_running(local, remote.status) if end is None else _mirror_ended(local, remote.status, end)
    desired = replace(local, status=status)
    return local.status if validate_status_update(desired, local) else status


def at_rest(local: Job, now: datetime) -> JobStatus:
    """Return the status of a manager's Job that has not finished and none of whose pods runs any more."""
    status = local.status
    conditions, _ = ensure(status.conditions, SUSPENDED, "True", "JobSuspended", "Job suspended", now)
    return replace(
        status,
        conditions=conditions,
        active=0,
        ready=0,
        terminating=None,
        uncounted_terminated_pods=None,
        start_time=None if local.spec.suspend else status.start_time,
    )


def _mirror_running(local: Job, remote: JobStatus) -> JobStatus:
    kept = tuple(one for one in local.status.conditions if one.status == "True" and one.type in _FINAL)
    active = _count(remote.active)
    return replace(
        _merge_counters(local, remote),
        conditions=(*_keep_passing_conditions(remote), *kept),
        active=active,
        ready=None if remote.ready is None else min(_count(remote.ready), active),
        terminating=None if remote.terminating is None else _count(remote.terminating),
        uncounted_terminated_pods=_drop_duplicates(remote.uncounted_terminated_pods),
        start_time=_start(local, remote.start_time),
        completion_time=None,
    )


def _mirror_ended(local: Job, remote: JobStatus, end: JobCondition) -> JobStatus:
    announced = _ANNOUNCED_BY[end.type]
    condition = find_true(remote.conditions, announced) or replace(end, type=announced)
    start_time = remote.start_time or local.status.start_time or remote.completion_time
    start = _start(local, start_time or end.last_transition_time or local.metadata.creation_timestamp)
    moments = [moment for moment in (remote.completion_time or end.last_transition_time, start) if moment is not None]
    return replace(
        _merge_counters(local, remote),
        conditions=(*_keep_passing_conditions(remote), condition, end),
        active=0,
        ready=0,
        terminating=None if remote.terminating is None else 0,
        uncounted_terminated_pods=None,
        start_time=start,
        completion_time=max(moments, default=None) if end.type == COMPLETE else None,
    )


def _keep_passing_conditions(remote: JobStatus) -> Conditions:
    """Return the conditions that are not final, each type once."""
    condition_by_type = {one.type: one for one in reversed(remote.conditions) if one.type not in _FINAL}
    return tuple(reversed(condition_by_type.values()))


def _start(local: Job, remote: datetime | None) -> datetime | None:
    """Return the start time: the local one, if it is set and the Job is not suspended; else the remote one."""
    local_start = local.status.start_time
    return local_start if local_start is not None and not local.spec.suspend else remote


def _merge_counters(local: Job, remote: JobStatus) -> JobStatus:
    """Return the status with the remote counters, and with the indexes that exist in the Job."""
    spec, before = local.spec, local.status
    indexed, size = spec.completion_mode == INDEXED, spec.completions or 0
    completed = Indexes.parse(remote.completed_indexes, size) if indexed else Indexes()
    failed: Indexes | None = None
    if spec.backoff_limit_per_index is not None and remote.failed_indexes is not None:
        failed = Indexes.parse(remote.failed_indexes, size)
        if failed.overlap(completed):
            failed = Indexes.of(index for index in failed if index not in completed)
    succeeded = _count(remote.succeeded)
    resizable = indexed and spec.completions == spec.parallelism  # such a Job may shrink, and then count fewer
    return replace(
        remote,
        succeeded=succeeded if resizable else max(succeeded, before.succeeded),
        failed=max(_count(remote.failed), before.failed),
        completed_indexes=str(completed),
        failed_indexes=None if failed is None else str(failed),
    )


def _count(number: int) -> int:
    return min(max(0, number), _MOST)


def _drop_duplicates(pods: UncountedTerminatedPods | None) -> UncountedTerminatedPods | None:
    if pods is None:
        return None
    succeeded = dict.fromkeys(filter(None, pods.succeeded))
    failed = (uid for uid in dict.fromkeys(filter(None, pods.failed)) if uid not in succeeded)
    return UncountedTerminatedPods(succeeded=tuple(succeeded), failed=tuple(failed))
