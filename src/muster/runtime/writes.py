"""Writes side by side: so many at once, and what was refused is an answer like any other."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias, TypeVar

from muster.api.status import ApiError
from muster.runtime.transport import TransportError

T = TypeVar("T")
A = TypeVar("A")

Refusal: TypeAlias = ApiError | TransportError


class Writes:
    """Bounds what is under way together, for all who share it."""

    def __init__(self, at_once: int) -> None:
        self._limit = asyncio.Semaphore(at_once)

    async def each(self, write: Callable[[T], Awaitable[A]], things: Iterable[T]) -> list[A | Refusal]:
        """Write all of them, whatever is refused; the answers, in order."""

        async def one(thing: T) -> A | Refusal:
            async with self._limit:
                try:
                    return await write(thing)
                except (ApiError, TransportError) as error:
                    return error

        return await asyncio.gather(*map(one, things))


def is_unsure(error: Refusal) -> bool:
    """Whether the write may have happened all the same: no answer came, or one that does not know either."""
    return isinstance(error, TransportError) or error.code >= 500
