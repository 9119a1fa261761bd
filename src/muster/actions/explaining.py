"""Finds out why a job does not run, here and in the cluster that it was given to."""

from collections.abc import Sequence
from datetime import datetime

from muster.actions.following.elsewhere import OutOfReachError, copy_of, reaching
from muster.api.status import ApiError
from muster.insight.reader.job import investigate
from muster.insight.why import JobReadings, Level, joined, levels
from muster.runtime.client import Client
from muster.runtime.transport import TransportError


async def explain(
    client: Client, namespace: str, name: str, now: datetime
) -> tuple[JobReadings, Sequence[Level]] | None:
    """The facts about a job and where it stands, level by level; None if there is none. Raises `ApiError`."""
    facts = await investigate(client, namespace, name, now)
    return None if facts is None else (facts, await _with_there(client, facts, levels(facts)))


async def _with_there(client: Client, facts: JobReadings, here: Sequence[Level]) -> Sequence[Level]:
    """With what the cluster that runs it knows of its pods, as far as the user may ask there."""
    cluster = facts.quota_state.cluster if facts.quota_state is not None else ""
    if not cluster or facts.job is None or facts.state.finished:
        return here
    try:
        async with reaching(client)(cluster) as there:
            await copy_of(client, there, facts.job)
            found = await investigate(there, facts.namespace, facts.name, facts.now)
    except (ApiError, OutOfReachError, TransportError):  # what is known here is shown
        return here
    return here if found is None else joined(here, levels(found))
