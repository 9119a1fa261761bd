"""Run many writes concurrently, up to a limit. A refused write does not stop the others."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias, TypeVar

from muster.api.status import ApiError
from muster.runtime.transport import TransportError

T = TypeVar("T")
A = TypeVar("A")

Refusal: TypeAlias = ApiError | TransportError


class Writes:
    """A limit on concurrent writes, shared by all writers that use this object."""

    def __init__(self, at_once: int) -> None:
        self._limit = asyncio.Semaphore(at_once)

    async def each(self, write: Callable[[T], Awaitable[A]], things: Iterable[T]) -> list[A | Refusal]:
        """Call `write` for each item; return the results in order.

        A refusal counts as a result, and stops no other write.
        """

        async def one(thing: T) -> A | Refusal:
            async with self._limit:
                try:
                    return await write(thing)
                except (ApiError, TransportError) as error:
                    return error

        return await asyncio.gather(*map(one, things))


def is_unsure(error: Refusal) -> bool:
    """Return whether a failed write may have been stored nevertheless.

    It may if no response arrived, or if the server had an internal error.
    """
    return isinstance(error, TransportError) or error.code >= 500
