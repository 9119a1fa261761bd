"""Read past runs: from the history of a Muster server, or else from existing objects and Events."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from muster.api.core import Pod
from muster.api.status import ApiError
from muster.insight.history.build import ended_at, lacks_pods, with_past
from muster.insight.history.runs import PATH, Run, RunQuery, Runs
from muster.insight.record import JobRecord
from muster.runtime.client import Client
from muster.runtime.transport import Request

# The maximum number of runs on a page that a server returns.
_PAGE = 1_000

NO_HISTORY = "this cluster keeps no history: only jobs that are still there are shown, and what Events tell of others"


async def read_history(
    client: Client, query: RunQuery, limit: int, say: Callable[[str], None]
) -> tuple[list[Run], bool]:
    """Return the matching runs, the newest first, and whether there are more.

    Without a history, or if the user may not see it, the runs come from existing objects, and `say` receives a
    sentence. Raises `ApiError` if the user may not see Jobs or the server refuses the query, and `TransportError`.

    limit: the maximum number of runs; 0 for all.
    """
    try:
        return await _read_kept_runs(client, query, limit)
    except ApiError as error:
        if error.code not in (403, 404):
            raise
    from muster.insight.reader.history.pastruns import list_existing_runs  # it takes a while to load

    runs = await list_existing_runs(client, query, say)
    say(NO_HISTORY)
    return (runs[:limit], len(runs) > limit) if limit else (runs, False)


async def read_recorded_runs(client: Client, query: RunQuery) -> list[Run]:
    """Return the matching runs from the history, the newest first.

    Return no runs if the cluster has no history or the user may not see it.

    Raises:
        ApiError: the server refuses the query for another reason.
        TransportError: the server does not respond.
    """
    try:
        return (await _read_kept_runs(client, query, 0))[0]
    except ApiError as error:
        if error.code not in (403, 404):
            raise
        return []


async def recall_jobs(
    client: Client, namespace: str, jobs: Sequence[JobRecord], pods: Mapping[str, Sequence[Pod]]
) -> list[JobRecord]:
    """Return the jobs, each with its recorded run if some of its pods no longer exist.

    If the cluster has no history, or the user may not see it, the jobs are returned unchanged.

    pods: the pods that still exist, by the UID of their job.

    Raises:
        ApiError: the server refuses the query for another reason.
        TransportError: the server does not respond.
    """
    lacking = [job for job in jobs if lacks_pods(job, pods.get(job.metadata.uid, ()))]
    if not lacking:
        return list(jobs)
    names = (lacking[0].metadata.name,) if len(lacking) == 1 else ()
    since = min(filter(None, map(ended_at, lacking)), default=None)
    runs = await read_recorded_runs(client, RunQuery(namespace=namespace, names=names, since=since))
    run_by_uid, uids = {run.uid: run for run in runs}, {job.metadata.uid for job in lacking}
    return [with_past(job, run_by_uid.get(job.metadata.uid)) if job.metadata.uid in uids else job for job in jobs]


async def recall_job(client: Client, job: JobRecord, pods: Sequence[Pod]) -> JobRecord:
    """Return one job, with its recorded run if some of its pods no longer exist. See `recall_jobs`."""
    [job_record] = await recall_jobs(client, job.metadata.namespace, [job], {job.metadata.uid: pods})
    return job_record


async def _read_kept_runs(client: Client, query: RunQuery, limit: int) -> tuple[list[Run], bool]:
    runs: list[Run] = []
    parameters = _make_parameters(query)
    while True:
        parameters["limit"] = str(min(limit - len(runs), _PAGE) if limit else _PAGE)
        answer = msgspec.json.decode((await client.raw(Request("GET", PATH, parameters))).body, type=Runs)
        runs += answer.items
        if not answer.more or (limit and len(runs) >= limit):
            return runs, bool(answer.more)
        parameters["after"] = answer.more


def _make_parameters(query: RunQuery) -> dict[str, str]:
    parameters = {
        "namespace": query.namespace,
        "names": ",".join(query.names),
        "owner": query.owner,
        "queue": query.queue,
        "states": ",".join(query.states),
        "since": str(int(query.since.timestamp())) if query.since is not None else "",
        "until": str(int(query.until.timestamp())) if query.until is not None else "",
    }
    return {name: value for name, value in parameters.items() if value}
