"""Read past runs on a cluster without a history, from its existing objects and its Events."""

from collections.abc import Callable, Iterable

from muster.api.core import EVENT
from muster.api.jobset import JOB_SET
from muster.insight.history.build import read_runs_from_events, run_of, run_of_workload
from muster.insight.history.runs import Run, RunQuery
from muster.insight.quota.state import owner_uids
from muster.insight.reader.jobs.records import all_records
from muster.insight.reader.jobs.rows import pods_by_job
from muster.insight.reader.listing.access import list_or_none
from muster.insight.reader.quota.workloads import workloads_of
from muster.insight.record import JobRecord
from muster.runtime.client import Client


async def list_existing_runs(client: Client, query: RunQuery, say: Callable[[str], None]) -> list[Run]:
    """Return the matching runs that the server's objects and Events still show, the newest first.

    say: receives a sentence if the user may not list Workloads.

    Raises `ApiError` if the user may not see Jobs.
    """
    namespace = query.namespace
    jobs = await all_records(client, namespace)
    pods = await pods_by_job(client, namespace)
    runs = [run_of(job, pods[job.metadata.uid]) for job in jobs]
    existing_uids = {uid for job in jobs for uid in (job.metadata.uid, *(one.metadata.uid for one in job.jobs))}
    others = [one for one in await workloads_of(client, namespace, say) if not owner_uids(one) & existing_uids]
    runs += [run_of_workload(one, [pod for uid in owner_uids(one) for pod in pods[uid]]) for one in others]
    events = await list_or_none(client, EVENT, namespace) or []
    from_events = [run for run in read_runs_from_events(events) if run.uid not in existing_uids]
    matching = [run for run in (*runs, *_drop_parts(from_events, jobs)) if run is not None and query.matches(run)]
    return sorted(matching, key=lambda run: (run.ended, run.uid), reverse=True)


def _drop_parts(all_runs: Iterable[Run], jobs: Iterable[JobRecord]) -> list[Run]:
    """Return the runs without those of a JobSet's Jobs, which are recognized by the prefix of their names."""
    runs = list(all_runs)
    sets = {(run.namespace, run.name) for run in runs if run.kind == JOB_SET.kind}
    sets |= {(job.metadata.namespace, job.metadata.name) for job in jobs if job.kind == JOB_SET}

    def is_part(run: Run) -> bool:
        return run.kind != JOB_SET.kind and any(
            run.namespace == namespace and run.name.startswith(f"{name}-") for namespace, name in sets
        )

    return [run for run in runs if not is_part(run)]
