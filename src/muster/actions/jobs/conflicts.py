"""Write a job from the version that was read, and retry if another client changed the job in between."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from muster.actions.jobs.lookup import get_job
from muster.api.status import ApiError
from muster.insight.record import JobRecord
from muster.runtime.client import Client
from muster.runtime.realclock import RealClock

T = TypeVar("T")

# A busy job often changes between reading and writing. While a write is stored, reads return the version before it.
ATTEMPTS = 10
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.01, 0.5


async def rewrite_object(
    client: Client, name: str, namespace: str, write: Callable[[JobRecord], Awaitable[T]], uid: str = ""
) -> T:
    """Read a job and pass it to `write`, which changes it on the server; return its result.

    Both are done again after each conflict, up to a limit. Every attempt is about the job of the first one: another job
    that has got its name is left alone. uid: of the job that the caller means; "" for the present one of this name.
    Raises `ApiError` (409 for another job), and what reading and `write` raise.
    """
    for attempt in range(1, ATTEMPTS + 1):
        job = await get_job(client, name, namespace, uid)
        uid = job.metadata.uid
        try:
            return await write(job)
        except ApiError as error:
            if error.code != 409 or attempt == ATTEMPTS:
                raise
            await pause_after_conflict(attempt)
    raise AssertionError("the last attempt returns or raises")


async def pause_after_conflict(attempt: int) -> None:
    """Wait until another client's write is probably stored; twice as long after each attempt. attempt: from 1."""
    await RealClock().sleep(min(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1), _MAX_PAUSE_SECONDS))
