"""Retry the failed and unfinished trials of a sweep, in a new Job with the same indexes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.actions.errors import UserError
from muster.actions.jobs.lookup import get_job
from muster.actions.submission.gang import name_for_retry
from muster.actions.submission.submitting import sign_manifest
from muster.actions.submission.sweep import make_retry
from muster.api.batch import JOB
from muster.api.kueue import WORKLOAD
from muster.api.ours.trials import RETRY_ANNOTATION, Array
from muster.api.status import ApiError
from muster.insight.reader.listing.access import list_or_none
from muster.insight.reader.quota.workloads import labels_of
from muster.insight.record import JobRecord
from muster.runtime.client import Client
from muster.runtime.ids import Ids


@dataclass(frozen=True, slots=True)
class Retry:
    """A submitted sweep that retries trials of an earlier sweep.

    of: the number of trials of the earlier sweep.
    """

    name: str
    trials: Array
    of: int


@dataclass(frozen=True, slots=True)
class Repetition:
    """A sweep that is ready to be submitted: its manifest, and the trials that it retries."""

    retry: Retry
    manifest: dict[str, Any]


async def retry(
    client: Client, name: str, namespace: str, new: str, ids: Ids, account: str = "", *, uid: str = ""
) -> Retry | None:
    """Submit a sweep that retries the unsuccessful trials of a sweep; return None if all trials have succeeded.

    new: the name of the new sweep; "" for a generated name.
    account: the name of the submitter, as in `sign_manifest`.
    uid: the UID of the earlier sweep; "" for any sweep of this name.

    Raises `ApiError`, `TransportError`, and `UserError` if the job is not a sweep, has not ended, or the new name is
    taken.
    """
    made = await prepare_retry(client, name, namespace, new, ids, account, uid=uid)
    if made is None:
        return None
    try:
        await client.create(JOB.seen_as(dict), made.manifest, namespace)
    except ApiError as error:
        if error.reason == "AlreadyExists":
            raise UserError(f"there is a job {made.retry.name} already: choose another name (--name)") from None
        raise
    return made.retry


async def prepare_retry(
    client: Client, name: str, namespace: str, new: str, ids: Ids, account: str = "", *, uid: str = ""
) -> Repetition | None:
    """Return the sweep that `retry` would submit, without submitting it; None if all trials have succeeded.

    The arguments and errors are those of `retry`.
    """
    job = await get_job(client, name, namespace, uid)
    if job.array is None:
        raise UserError(f"{name} is no sweep, and only trials of a sweep can be retried (muster run --array, --grid)")
    if job.end is None:
        raise UserError(f"{name} has not ended yet: retry it once it has (muster wait {name})")
    unfinished_trials = list_unfinished_ranks(job)
    if not unfinished_trials:
        return None
    manifest = await client.get(JOB.seen_as(dict), name, namespace)
    new = new or name_for_retry(job.metadata.annotations.get(RETRY_ANNOTATION, name), ids.suffix())
    trials = job.indexes_of(unfinished_trials)
    try:
        made = make_retry(manifest, trials, new, await _find_template_before(client, job))
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None
    return Repetition(Retry(new, trials, len(job.array)), sign_manifest(made, account))


def list_unfinished_ranks(job: JobRecord) -> list[int]:
    """Return the ranks of the trials that failed, or did not run before the sweep ended.

    Trials that a user cancelled individually are left out.
    """
    assert job.array is not None, "it is a sweep"
    return (job.succeeded_trials | job.cancelled_trials).lowest_missing(len(job.array), len(job.array))


async def _find_template_before(client: Client, job: JobRecord) -> Mapping[str, Any] | None:
    """Return the pod template of a job from before the queue injected fields.

    Returns None if the user cannot read the job's Workload.
    """
    labels = labels_of(job.metadata.uid)
    workloads = await list_or_none(client, WORKLOAD.seen_as(dict), job.metadata.namespace, labels=labels) or ()
    return next((podset["template"] for one in workloads for podset in one["spec"]["podSets"]), None)
