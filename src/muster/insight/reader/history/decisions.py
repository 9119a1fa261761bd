"""Read the engine's decisions, and the life of one job."""

from collections.abc import AsyncIterator

import msgspec

from muster.api.core import Pod
from muster.api.ours.decisions import PATH, Decision, Decisions
from muster.api.status import ApiError
from muster.insight.history.life import Facts, Life, describe_life, facts_of_job, facts_of_run
from muster.insight.history.runs import RunQuery
from muster.insight.reader.history.recorded import read_recorded_runs
from muster.insight.reader.jobs.pods import read_own_pods
from muster.insight.reader.jobs.records import record_named
from muster.insight.reader.listing.access import UNSEEN
from muster.insight.record import JobRecord
from muster.runtime.client import Client
from muster.runtime.refusals import ignoring
from muster.runtime.transport import Request

NO_DECISIONS = "this cluster keeps no record of decisions; the engine logs them at debug level"


async def read_decisions(client: Client, namespace: str, name: str = "") -> AsyncIterator[Decision]:
    """Yield the recorded decisions about the jobs of a namespace ("" for all), the newest first.

    name: the name of the jobs whose decisions to yield; "" for all.

    Raises:
        ApiError: the user may not list these jobs, or the cluster records no decisions (404).
        TransportError: the server does not respond.
    """
    query = {key: value for key, value in (("namespace", namespace), ("name", name)) if value}
    while True:
        page = msgspec.json.decode((await client.raw(Request("GET", PATH, query))).body, type=Decisions)
        for decision in page.items:
            yield decision
        if not page.more:
            return
        query["before"] = str(page.more)


async def read_life(client: Client, namespace: str, name: str) -> Life | None:
    """Return the life of the newest job of a name; None if that job neither exists nor is recorded.

    Raises:
        ApiError: the user may not see the job.
        TransportError: the server does not respond.
    """
    facts = await _find_facts(client, namespace, name)
    try:
        decisions = [one async for one in read_decisions(client, namespace, name)][::-1]
    except ApiError as error:
        if error.code != 404:
            raise
        return None if facts is None else Life(facts, describe_life(facts, ()), kept=False)
    if facts is None:
        if not decisions:
            return None
        facts = Facts(namespace, name, decisions[-1].uid)
    return Life(facts, describe_life(facts, decisions))


async def _find_facts(client: Client, namespace: str, name: str) -> Facts | None:
    """Return the beginning and the end of a job's life, from the job or the history; None if neither has it."""
    try:
        record = await record_named(client, name, namespace)
        job: Facts | None = facts_of_job(record, await _read_visible_pods(client, record))
    except ApiError as error:
        if error.code != 404:
            raise
        job = None
    runs = await read_recorded_runs(client, RunQuery(namespace=namespace, names=(name,)))
    run = next((one for one in runs if one.name == name and (job is None or one.uid == job.uid)), None)
    return facts_of_run(run) if run is not None else job


async def _read_visible_pods(client: Client, job: JobRecord) -> list[Pod]:
    """Return the pods of a job, or none if the user may not see pods."""
    with ignoring(*UNSEEN):
        return await read_own_pods(client, job)
    return []
