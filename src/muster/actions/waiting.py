"""Waits for what a controller of the cluster does in answer to a command."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from muster.runtime.clock import Clock

T = TypeVar("T")

_PAUSE_SECONDS = 0.25


async def until(look: Callable[[], Awaitable[T | None]], clock: Clock, seconds: float) -> T | None:
    """What `look` finds, as soon as it does; None if that takes longer."""
    end = clock.monotonic() + seconds
    while (found := await look()) is None and clock.monotonic() < end:
        await clock.sleep(_PAUSE_SECONDS)
    return found
