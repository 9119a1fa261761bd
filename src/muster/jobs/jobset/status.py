"""Count the Jobs of each role by state: `status.replicatedJobsStatus`, in the order of the spec."""

from msgspec.structs import replace

from muster.api.batch import Job, pods_at_once
from muster.api.conditions import is_true
from muster.api.jobset import JobSet, JobSetStatus, ReplicatedJob, ReplicatedJobStatus, names
from muster.jobs.jobset.census import Census


def roles_status(jobset: JobSet, census: Census) -> tuple[ReplicatedJobStatus, ...]:
    """Return the counts of each role, with the restarts of single Jobs copied from the old status."""
    before = {record.name: record for record in jobset.status.replicated_jobs_status}
    counts = {role.name: [0, 0, 0, 0, 0] for role in jobset.spec.replicated_jobs}
    for member in census.active:
        count, job = counts[member.role], member.job
        count[0] += is_ready(job)
        count[3] += job.status.active > 0
        count[4] += bool(job.spec.suspend)
    for member in census.successful:
        counts[member.role][1] += 1
    for member in census.failed:
        counts[member.role][2] += 1
    return tuple(_make_status(role, counts[role.name], before.get(role.name)) for role in jobset.spec.replicated_jobs)


def is_ready(job: Job) -> bool:
    """Return whether all pods that should run at the same time are ready or succeeded; False for a suspended Job."""
    return not job.spec.suspend and job.status.succeeded + (job.status.ready or 0) >= pods_at_once(job.spec)


def has_started(record: ReplicatedJobStatus, replicas: int) -> bool:
    """Return whether all Jobs of a role are ready or have ended."""
    return record.failed + record.ready + record.succeeded == replicas


def all_ready(jobset: JobSet, records: tuple[ReplicatedJobStatus, ...]) -> bool:
    """Return whether all Jobs are ready, or have succeeded."""
    replicas = sum(role.replicas for role in jobset.spec.replicated_jobs)
    return sum(record.ready + record.succeeded for record in records) == replicas


def says_it_runs(status: JobSetStatus) -> bool:
    """Return whether the status lists the roles and does not say Suspended.

    That is so from before the first Job runs until the last Job is suspended, and after an end without a suspension. A
    JobSet that is being suspended keeps its quota as long as this is true.
    """
    return bool(status.replicated_jobs_status) and not is_true(status.conditions, names.SUSPENDED)


def without_counts(status: JobSetStatus) -> JobSetStatus:
    """Return the status without the counts of each role's Jobs."""
    roles = tuple(
        replace(record, ready=0, succeeded=0, failed=0, active=0, suspended=0)
        for record in status.replicated_jobs_status
    )
    return replace(status, replicated_jobs_status=roles)


def _make_status(role: ReplicatedJob, count: list[int], before: ReplicatedJobStatus | None) -> ReplicatedJobStatus:
    ready, succeeded, failed, active, suspended = count
    record = before if before is not None else ReplicatedJobStatus(name=role.name)
    return replace(
        record,
        ready=ready,
        succeeded=succeeded,
        failed=failed,
        active=active,
        suspended=suspended,
        job_restarts=_fit_counts(record.job_restarts, role.replicas),
        job_restarts_count_towards_max=_fit_counts(record.job_restarts_count_towards_max, role.replicas),
    )


def _fit_counts(counts: tuple[int, ...], replicas: int) -> tuple[int, ...]:
    """Return one count for each Job, or no counts if no Job was ever restarted alone."""
    if not counts or len(counts) == replicas:
        return counts
    return (*counts[:replicas], *(0 for _ in range(replicas - len(counts))))
