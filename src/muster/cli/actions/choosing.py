"""Find jobs by labels, state, queue and user."""

from collections.abc import Collection
from typing import Any

from muster.actions.server.session import Session
from muster.api.batch import JOB
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import JOBSET_NAME
from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.cli.terminal.output import say
from muster.insight.reader.jobs.rows import job_rows
from muster.insight.reader.listing.access import list_or_none
from muster.runtime.realclock import RealClock


async def select_job_rows(
    session: Session, labels: str, states: Collection[str], queue: str, user: str
) -> list[dict[str, Any]]:
    """Return the rows of the namespace's jobs that have these labels, states, queue and user.

    Each row also has the `kind` of the job. An empty argument matches any job. Workloads without a job never match,
    because only their owner can end them. Raises `ApiError`, `TransportError`.
    """
    from muster.cli.commands.observation.ps import select_rows

    kinds: dict[str, Kind[Any]] = {}
    of_jobs: tuple[tuple[Kind[Any], str], ...] = ((JOB, f"!{JOBSET_NAME}"), (JOB_SET, ""))
    for kind, own in of_jobs:
        both = ",".join(filter(None, (labels, own)))
        objects = await list_or_none(session.client, kind.seen_as(Object), session.namespace, labels=both)
        kinds |= {one.metadata.name: kind for one in objects or ()}
    rows = await job_rows(session.client, session.namespace, RealClock().now(), say) if kinds else []
    return [row | {"kind": kinds[row["name"]]} for row in select_rows(rows, kinds, states, queue, user)]
