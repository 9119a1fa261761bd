"""Tasks together."""

import asyncio
from collections.abc import Collection
from typing import Any


async def cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until all of them have ended, however they do."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
