"""Read jobs from any cluster: Jobs, and JobSets if the cluster serves them."""

from collections.abc import Collection
from typing import Any

from muster.api.batch import JOB, Job
from muster.api.jobset import JOB_SET, JobSet
from muster.api.jobset.names import JOBSET_NAME
from muster.api.kinds import Kind
from muster.insight.reader.listing.access import get_or_none, list_or_none
from muster.insight.record import JobRecord, record_of, records_of
from muster.runtime.client import Client


async def record_named(client: Client, name: str, namespace: str, kind: Kind[Any] | None = None) -> JobRecord:
    """Return the job of a name: a JobSet, or else a Job, unless the kind is known.

    kind: the kind of the job if a list has shown it, so that a job of the other kind is not looked for.

    Raises `ApiError` if there is no such job, or the user may not see it.
    """
    if kind is JOB_SET:
        listed: JobSet = await client.get(JOB_SET, name, namespace)
        return await read_record(client, listed)
    if kind is not JOB and (job_set := await get_or_none(client, JOB_SET, name, namespace)) is not None:
        return await read_record(client, job_set)
    job: Job = await client.get(JOB, name, namespace)
    return record_of(job)


async def read_record(client: Client, source: Job | JobSet) -> JobRecord:
    """Return the record of a Job, or of a JobSet with its Jobs, as far as the user may see them. Raises `ApiError`."""
    if isinstance(source, Job):
        return record_of(source)
    labels = f"{JOBSET_NAME}={source.metadata.name}"
    return record_of(source, await list_or_none(client, JOB, source.metadata.namespace, labels=labels) or ())


async def all_records(
    client: Client,
    namespace: str,
    *,
    jobs: Kind[Job] = JOB,
    sets: Kind[JobSet] = JOB_SET,
    only: Collection[str] | None = None,
) -> list[JobRecord]:
    """Return all jobs of a namespace ("" for all).

    jobs, sets: the views of Jobs and JobSets to read.
    only: the UIDs of the jobs to return; None for all.

    Raises:
        ApiError: the user may not see Jobs.
    """
    records = (await client.list(jobs, namespace)).items
    job_sets = await list_or_none(client, sets, namespace)
    if only is not None:
        records = [one for one in records if one.metadata.uid in only or not _list_owners(one).isdisjoint(only)]
        wanted = set[str](only).union(*map(_list_owners, records))
        job_sets = job_sets and [one for one in job_sets if one.metadata.uid in wanted]
    return records_of(job_sets, records)


def _list_owners(job: Job) -> set[str]:
    return {owner.uid for owner in job.metadata.owner_references}
