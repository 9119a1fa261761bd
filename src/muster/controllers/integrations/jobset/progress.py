"""Decide a JobSet's readiness for its quota, and which pods will not be needed again. Pure."""

from muster.api.conditions import is_true
from muster.api.jobset import JobSet, ReplicatedJob, ReplicatedJobStatus, names
from muster.api.kueue import ReclaimablePod
from muster.jobs.jobset.ordering import may_start
from muster.jobs.jobset.size import pods_of_job

_IGNORES_MAXIMUM = (names.RESTART_JOBSET_IGNORING_MAX,)


def is_ready(jobset: JobSet) -> bool:
    """Return whether all Jobs that may run are ready or have succeeded.

    A role that waits for another role has no pods yet. It counts only after the other role has reached the required
    state. Upstream never finds such a JobSet ready (kueue#6796).
    """
    records = {record.name: record for record in jobset.status.replicated_jobs_status}
    roles = {role.name: role for role in jobset.spec.replicated_jobs}
    due = (role for role in roles.values() if may_start(role, roles, records))
    return all(_is_ready(role, records.get(role.name)) for role in due)


def _is_ready(role: ReplicatedJob, record: ReplicatedJobStatus | None) -> bool:
    return (record.ready + record.succeeded if record is not None else 0) >= role.replicas


def list_reclaimable(jobset: JobSet) -> tuple[ReclaimablePod, ...]:
    """Return the pods of Jobs that have succeeded, or none if a restart could create them again.

    If their quota were released, it would be missing at a restart. Upstream releases it, and then uses more than it
    holds.
    """
    if may_restart(jobset):
        return ()
    records = {record.name: record for record in jobset.status.replicated_jobs_status}
    pods = (
        ReclaimablePod(name=role.name, count=_count_done(role, records[role.name]) * pods_of_job(role))
        for role in jobset.spec.replicated_jobs
        if role.name in records
    )
    return tuple(one for one in pods if one.count)


def _count_done(role: ReplicatedJob, record: ReplicatedJobStatus) -> int:
    """Return how many Jobs have succeeded. Right after a scale-down, the status may still count deleted Jobs."""
    return max(0, min(record.succeeded, role.replicas - record.active)) if record.succeeded <= role.replicas else 0


def may_restart(jobset: JobSet) -> bool:
    """Return whether succeeded Jobs may have to run again, by the failure policy.

    During a restart, the status may still have the counts of the previous attempt.
    """
    policy, status = jobset.spec.failure_policy, jobset.status
    if is_true(status.conditions, names.RESTARTING):
        return True
    if policy is None:
        return False
    unlimited = any(rule.action in _IGNORES_MAXIMUM for rule in policy.rules)
    return unlimited or status.restarts_count_towards_max < policy.max_restarts
