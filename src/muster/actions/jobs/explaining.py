"""Explain why a job does not run, in this cluster and in the worker cluster that MultiKueue dispatched it to."""

from collections.abc import Sequence
from datetime import datetime

from muster.actions.following.elsewhere import OutOfReachError, copy_of, make_reach
from muster.api.core import Pod
from muster.api.kinds import Kind
from muster.api.status import ApiError
from muster.insight.reader.jobs.job import investigate
from muster.insight.reader.listing.memo import Memo
from muster.insight.reader.listing.views import POD_LINES
from muster.insight.why import JobLevel, JobReadings, describe_levels, join_levels
from muster.runtime.client import Client
from muster.runtime.transport import TransportError


async def explain(
    client: Client,
    namespace: str,
    name: str,
    now: datetime,
    memo: Memo | None = None,
    *,
    kind: Kind[Pod] = POD_LINES,
) -> tuple[JobReadings, Sequence[JobLevel]] | None:
    """Return the readings about a job with the levels that explain it, or None if there is no such job.

    memo: results of earlier calls, for a caller whose lists follow a watch.
    kind: the view of pods to read.
    Raises `ApiError`.
    """
    readings = await investigate(client, namespace, name, now, memo, kind=kind)
    return (
        None if readings is None else (readings, await _add_levels_there(client, readings, describe_levels(readings)))
    )


async def _add_levels_there(client: Client, readings: JobReadings, here: Sequence[JobLevel]) -> Sequence[JobLevel]:
    """Return the levels, with those about pods taken from the worker cluster that runs the job.

    Return them unchanged if there is no such cluster, or it cannot be read.
    """
    cluster = readings.quota_state.cluster if readings.quota_state is not None else ""
    if not cluster or readings.job is None or readings.state.finished:
        return here
    try:
        async with make_reach(client)(cluster) as there:
            await copy_of(client, there, readings.job)
            there_readings = await investigate(there, readings.namespace, readings.name, readings.now)
    except (ApiError, OutOfReachError, TransportError):  # the user still gets the levels of this cluster
        return here
    return here if there_readings is None else join_levels(here, describe_levels(there_readings))
