"""Find jobs of other projects' kinds that wait for an operator, which may not run in this cluster.

The evidence is the status of an admitted job. Operators report on a job at once, and Muster writes no such status.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from muster.api.conditions import find_true
from muster.api.kueue import Workload
from muster.api.kueue.names import ADMITTED
from muster.api.meta import Object
from muster.insight.jobs.state import JobState
from muster.insight.quota.state import owner_uids
from muster.insight.reader.listing.access import list_or_none
from muster.runtime.client import Client

# A running operator has reported on a job within this time after its admission.
_PATIENCE = timedelta(seconds=10)


class _Reported(Object):
    """A job of any kind, and the status that its operator has written."""

    status: Any = None  # as its owner wrote it


async def explain_silent_operators(
    client: Client, namespace: str, states: Iterable[tuple[Workload, JobState]], now: datetime
) -> dict[str, str]:
    """Return why admitted jobs do not start, by the UID of their Workload, if no operator has reported on the job.

    If none of the jobs is starting, nothing is read, and the result is empty.

    namespace: the namespace to read; "" for all.
    states: Workloads without a Job or JobSet, with their states.
    """
    silent = [one for one, state in states if _awaits_operator(one, state, now)]
    if not silent:
        return {}
    from muster.controllers.integrations.external.integration import ExternalIntegration  # loads slowly
    from muster.controllers.integrations.table import INTEGRATIONS

    reasons: dict[str, str] = {}
    for integration in INTEGRATIONS:
        mine = [one for one in silent if any(map(integration.kind.is_of, one.metadata.owner_references))]
        if mine and isinstance(integration, ExternalIntegration):
            jobs = await list_or_none(client, integration.kind.seen_as(_Reported), namespace) or ()
            untouched = {job.metadata.uid for job in jobs if not job.status}
            reason = _explain_silence(integration.kind.kind, integration.shape.controller)
            reasons |= {one.metadata.uid: reason for one in mine if owner_uids(one) & untouched}
    return reasons


def _awaits_operator(workload: Workload, state: JobState, now: datetime) -> bool:
    admitted = find_true(workload.status.conditions, ADMITTED)
    if state.word != "Starting" or state.reason or workload.status.cluster_name or admitted is None:
        return False
    since = admitted.last_transition_time
    return since is not None and now - since >= _PATIENCE


def _explain_silence(kind: str, controller: str) -> str:
    return f"no program has reported on this {kind}: does its operator ({controller}) run in this cluster?"
