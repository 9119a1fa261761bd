"""Read and rewrite a job, and retry if another client changed it between the read and the write."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from muster.actions.jobs.lookup import get_job
from muster.api.kinds import Kind
from muster.api.status import ApiError
from muster.insight.record import JobRecord
from muster.runtime.client import Client
from muster.runtime.realclock import RealClock

T = TypeVar("T")

# A busy job often changes between a read and a write. While a write is being stored, reads return the previous version.
ATTEMPTS = 10
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.01, 0.5


async def rewrite_object(
    client: Client,
    name: str,
    namespace: str,
    write: Callable[[JobRecord], Awaitable[T]],
    uid: str = "",
    kind: Kind[Any] | None = None,
) -> T:
    """Read a job and pass it to `write`, which changes it on the server; return the result of `write`.

    Both are repeated after a conflict, up to a fixed number of attempts. All attempts change the same job, even if
    another job gets its name.

    uid: the UID of the job; "" for the current job of this name.
    kind: the kind of the job if a list has shown it; None for a JobSet, or else a Job.

    Raises `ApiError` (409 for another job), and all errors of the read and of `write`.
    """
    for attempt in range(1, ATTEMPTS + 1):
        job = await get_job(client, name, namespace, uid, kind)
        uid = job.metadata.uid
        try:
            return await write(job)
        except ApiError as error:
            if error.code != 409 or attempt == ATTEMPTS:
                raise
            await pause_after_conflict(attempt)
    raise AssertionError("the last attempt returns or raises")


async def pause_after_conflict(attempt: int) -> None:
    """Wait until another client's write is probably stored. The pause doubles with each attempt.

    attempt: the number of the attempt, from 1.
    """
    await RealClock().sleep(min(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1), _MAX_PAUSE_SECONDS))
