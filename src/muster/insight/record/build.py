"""Make the records of jobs from the objects that were read. Pure."""

from collections.abc import Iterable, Sequence

from muster.api.batch import INDEXED, Job
from muster.api.jobset import JOB_SET, JobSet, ReplicatedJob
from muster.api.meta import ObjectMeta, controller_of
from muster.api.ours.elastic import bounds_of
from muster.api.ours.trials import array_of
from muster.insight.record.job import PlainJobRecord
from muster.insight.record.jobset import JobSetRecord
from muster.insight.record.record import JobRecord, Role


def record_of(source: Job | JobSet, jobs: Iterable[Job] = ()) -> JobRecord:
    """Return the record of a Job, or of a JobSet with those of `jobs` that it owns.

    A Job with the annotation of a sweep gets the indexes of its trials.
    """
    if isinstance(source, Job):
        array = array_of(source.metadata.annotations, source.spec.completions)
        return PlainJobRecord(source, (_make_role_of_job(source),), (source,), array=array)
    roles: list[Role] = []
    for replicated_job in source.spec.replicated_jobs:
        roles.append(_make_role_of_replicated_job(replicated_job, roles[-1].end if roles else 0))
    uid = source.metadata.uid
    own = (job for job in jobs if any(owner.uid == uid for owner in job.metadata.owner_references))
    return JobSetRecord(source, tuple(roles), tuple(sorted(own, key=lambda job: job.metadata.name)))


def records_of(sets: Iterable[JobSet] | None, jobs: Sequence[Job]) -> list[JobRecord]:
    """Return the records of all JobSets, and of all Jobs that belong to no JobSet.

    The Jobs that a deleted JobSet left behind share one record, with `gone` set.

    sets: the JobSets; None if the user may not see them. Each of their Jobs then has a record of its own.
    """
    by_owner: dict[str, list[Job]] = {}
    for job in jobs:
        for owner in job.metadata.owner_references:
            by_owner.setdefault(owner.uid, []).append(job)
    of_sets = [record_of(one, by_owner.pop(one.metadata.uid, ())) for one in sets or ()]
    set_uids = {one.metadata.uid for one in of_sets}
    alone: list[Job] = []
    orphans: dict[str, list[Job]] = {}
    for job in jobs:
        if not job.metadata.owner_references:
            alone.append(job)
            continue
        above = controller_of(job.metadata)
        if sets is not None and above is not None and JOB_SET.is_of(above) and above.uid not in set_uids:
            orphans.setdefault(above.uid, []).append(job)
        elif not set_uids & {one.uid for one in job.metadata.owner_references}:
            alone.append(job)
    return [*of_sets, *map(_record_of_orphans, orphans.values()), *map(record_of, alone)]


def _record_of_orphans(jobs: Sequence[Job]) -> JobRecord:
    """Return the record of a deleted JobSet, made from its Jobs that still exist."""
    first = jobs[0].metadata
    owner = controller_of(first)
    assert owner is not None, "the JobSet is the Jobs' controller"
    meta = ObjectMeta(
        name=owner.name, namespace=first.namespace, uid=owner.uid, creation_timestamp=first.creation_timestamp
    )
    return JobSetRecord(JobSet(metadata=meta), tuple(map(_make_role_of_job, jobs)), tuple(jobs), gone=True)


def _make_role_of_job(job: Job) -> Role:
    spec, bounds = job.spec, bounds_of(job.metadata.annotations)
    count = spec.completions if spec.completions is not None else spec.parallelism or 0
    most = max(bounds.most if bounds is not None else 1, spec.parallelism or 1, spec.completions or 1)
    return Role("", 0, 1, most, count, spec.completion_mode == INDEXED)


def _make_role_of_replicated_job(replicated_job: ReplicatedJob, first: int) -> Role:
    spec = replicated_job.template.spec
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    each = spec.completions if spec.completions is not None else parallelism
    indexed = spec.completion_mode in (None, INDEXED)
    return Role(
        replicated_job.name, first, replicated_job.replicas, max(each, 1), replicated_job.replicas * each, indexed
    )
