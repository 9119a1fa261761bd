"""Writes a job as it was read, and anew where another has written it meanwhile."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from muster.actions.choices import get_job
from muster.api.status import ApiError
from muster.insight.record import JobRecord
from muster.runtime.client import Client

T = TypeVar("T")

# How often the job may have changed between being read and being written, as a busy one does.
ATTEMPTS = 10


async def rewriting(client: Client, name: str, namespace: str, write: Callable[[JobRecord], Awaitable[T]]) -> T:
    """Read a job and hand it to `write`, again after each conflict. Raises `ApiError`, and what these two do."""
    for attempt in range(1, ATTEMPTS + 1):
        job = await get_job(client, name, namespace)
        try:
            return await write(job)
        except ApiError as error:
            if error.code != 409 or attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")
