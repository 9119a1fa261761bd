"""Pass items from Muster's thread to a reader in another thread, which may be slow."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# The writer waits at this number of unread items, because a job may print more than fits into memory.
MOST_UNTAKEN = 16


class Feed(Generic[T]):
    """A queue of items from a producer on the event loop to a reader. All methods run on that loop."""

    def __init__(self) -> None:
        self._untaken: asyncio.Queue[Sequence[T] | None] = asyncio.Queue()
        self._taken = asyncio.Event()

    async def fill_from(self, work: Coroutine[Any, Any, Any]) -> None:
        """Await the coroutine that adds the items. When it ends, mark the end of the feed."""
        try:
            await work
        finally:
            self._untaken.put_nowait(None)

    def mention(self, one: T) -> None:
        """Add one item, without waiting for the reader."""
        self._untaken.put_nowait([one])

    async def tell(self, several: Sequence[T]) -> None:
        """Add several items. If the reader is too far behind, wait for it."""
        self._untaken.put_nowait(several)
        while self._untaken.qsize() > MOST_UNTAKEN:
            self._taken.clear()
            await self._taken.wait()

    async def take(self) -> Sequence[T] | None:
        """Return the next items; None at the end of the feed."""
        several = await self._untaken.get()
        self._taken.set()
        return several
