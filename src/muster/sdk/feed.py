"""What is told in muster's thread, on its way to a reader in another, who may be slow."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# Who tells waits once so much has not been taken: what a job prints may be more than there is memory.
MOST_UNTAKEN = 16


class Feed(Generic[T]):
    """Hands on all that is told, in its order. All of it happens on one loop."""

    def __init__(self) -> None:
        self._untaken: asyncio.Queue[Sequence[T] | None] = asyncio.Queue()
        self._taken = asyncio.Event()

    async def filled_by(self, work: Coroutine[Any, Any, Any]) -> None:
        """Have the work done which tells; nothing comes after its end."""
        try:
            await work
        finally:
            self._untaken.put_nowait(None)

    def mention(self, one: T) -> None:
        """Tell one of a few."""
        self._untaken.put_nowait([one])

    async def tell(self, several: Sequence[T]) -> None:
        """Tell some of many, at the pace of the reader."""
        self._untaken.put_nowait(several)
        while self._untaken.qsize() > MOST_UNTAKEN:
            self._taken.clear()
            await self._taken.wait()

    async def take(self) -> Sequence[T] | None:
        """What was told next; None at the end."""
        several = await self._untaken.get()
        self._taken.set()
        return several
