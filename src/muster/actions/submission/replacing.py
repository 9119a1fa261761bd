"""Delete a finished job so that a new job can use its name."""

from typing import Any

from muster.actions.errors import UserError
from muster.actions.submission.gang import Gang
from muster.actions.submission.mpi import secret_name
from muster.actions.submission.submitting import require_acceptable
from muster.api.core import SECRET, SERVICE
from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.status import ApiError
from muster.insight.reader.jobs.records import record_named
from muster.insight.record import JobRecord
from muster.runtime.client import Client
from muster.runtime.realclock import Clock
from muster.runtime.refusals import ignoring

# The number of seconds to wait until a job's objects are deleted.
PATIENCE_SECONDS = 30.0
_LOOK_SECONDS = 0.1


async def remove_ended(client: Client, gang: Gang, clock: Clock) -> None:
    """Delete the job that has the gang's name, if it exists, and wait until its objects are deleted.

    Nothing is deleted if the server would refuse the gang. Raises `ApiError`, and `UserError` if the job has not ended,
    or if its objects still exist after the wait.
    """
    try:
        job = await record_named(client, gang.name, gang.namespace)
    except ApiError as error:
        if error.code != 404:
            raise
        return
    if job.end is None:
        raise UserError(f"--replace: {gang.name} has not ended; end it first with: muster cancel {gang.name}")
    await require_acceptable(client, gang)
    with ignoring("NotFound"):
        await client.delete(job.kind, gang.name, gang.namespace, propagation="Foreground", uid=job.metadata.uid)
    deadline = clock.monotonic() + PATIENCE_SECONDS
    while (remains := await _find_remains(client, gang, job)) is not None:
        if clock.monotonic() >= deadline:
            raise UserError(f"--replace: {remains.kind} {gang.name} is still being deleted; try again later")
        await clock.sleep(_LOOK_SECONDS)


async def _find_remains(client: Client, gang: Gang, job: JobRecord) -> Kind[Any] | None:
    """Return the kind of an object of the deleted job that still exists; None if all are gone."""
    if await client.find(job.kind.seen_as(Object), gang.name, gang.namespace) is not None:
        return job.kind
    for kind, name in ((SERVICE, gang.name), (SECRET, secret_name(gang))):
        leftover = await client.find(kind.seen_as(Object), name, gang.namespace)
        if leftover is not None and any(owner.uid == job.metadata.uid for owner in leftover.metadata.owner_references):
            return kind
    return None
