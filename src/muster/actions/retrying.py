"""Runs those trials of a sweep again that have not succeeded: as a new Job, with the indexes that they had."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.actions.choices import get_job
from muster.actions.errors import UserError
from muster.actions.following.queuewatch import labels_of
from muster.actions.gang import name_for_retry
from muster.actions.submitting import signed
from muster.actions.sweep import again
from muster.api.batch import JOB
from muster.api.kueue import WORKLOAD
from muster.api.ours.trials import RETRY_ANNOTATION, Array
from muster.api.status import ApiError
from muster.api.values.indexes import Indexes
from muster.insight.reader.queues import list_or_none
from muster.insight.record import JobRecord
from muster.runtime.client import Client
from muster.runtime.ids import Ids


@dataclass(frozen=True, slots=True)
class Retry:
    """The sweep that runs trials again: which of how many."""

    name: str
    trials: Array
    of: int


async def retry(client: Client, name: str, namespace: str, new: str, ids: Ids) -> Retry | None:
    """Start a sweep of this name ("" for one that is free); None if all trials have succeeded.

    Raises `ApiError`, `TransportError`, `UserError` if it is no sweep, or goes on, or the name is taken.
    """
    job = await get_job(client, name, namespace)
    if job.array is None:
        raise UserError(f"{name} is no sweep, whose trials could run again (muster run --array, --grid)")
    if job.end is None:
        raise UserError(f"{name} is not over yet: say it again once it is (muster wait {name})")
    left = unfinished(job)
    if not left:
        return None
    manifest = await client.get(JOB.seen_as(dict), name, namespace)
    new = new or name_for_retry(job.metadata.annotations.get(RETRY_ANNOTATION, name), ids.suffix())
    trials = job.trials(left)
    try:
        made = again(manifest, trials, new, await _template_before(client, job))
        await client.create(JOB.seen_as(dict), signed(made), namespace)
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None
    except ApiError as error:
        if error.reason == "AlreadyExists":
            raise UserError(f"there is a job {new} already: --name another") from None
        raise
    return Retry(new, trials, len(job.array))


def unfinished(job: JobRecord) -> list[int]:
    """The ranks of a sweep's trials that have not succeeded: they failed, or it ended before they ran."""
    assert job.array is not None, "it is a sweep"
    done = Indexes.parse(job.jobs[0].status.completed_indexes, len(job.array))
    return done.lowest_missing(len(job.array), len(job.array))


async def _template_before(client: Client, job: JobRecord) -> Mapping[str, Any] | None:
    """What its pods were to be before its queue gave them nodes; None if it has no Workload to be seen."""
    labels = labels_of(job.metadata.uid)
    workloads = await list_or_none(client, WORKLOAD.seen_as(dict), job.metadata.namespace, labels=labels) or ()
    return next((podset["template"] for one in workloads for podset in one["spec"]["podSets"]), None)
