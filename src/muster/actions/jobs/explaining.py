"""Explain why a job does not run, in this cluster and in the worker cluster to which MultiKueue dispatched it."""

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
    """Return what was read about a job, and its state on each of the levels that a job passes.

    Return None if the job does not exist.

    memo: cached results of earlier calls, for a caller that keeps its lists up to date with watches.
    kind: the view in which pods are read. The default omits the fields that `PodLine` lists.

    Raises `ApiError`.
    """
    readings = await investigate(client, namespace, name, now, memo, kind=kind)
    return (
        None if readings is None else (readings, await _add_levels_there(client, readings, describe_levels(readings)))
    )


async def _add_levels_there(client: Client, readings: JobReadings, here: Sequence[JobLevel]) -> Sequence[JobLevel]:
    """Return the levels, with the levels about pods replaced by those of the worker cluster that runs the job.

    Returns them unchanged if the job has no worker cluster, or if the cluster cannot be read.
    """
    cluster = readings.quota_state.cluster if readings.quota_state is not None else ""
    if not cluster or readings.job is None or readings.state.finished:
        return here
    try:
        async with make_reach(client)(cluster) as there:
            await copy_of(client, there, readings.job)
            there_readings = await investigate(there, readings.namespace, readings.name, readings.now)
    except (ApiError, OutOfReachError, TransportError):  # the levels of this cluster are shown anyway
        return here
    return here if there_readings is None else join_levels(here, describe_levels(there_readings))
