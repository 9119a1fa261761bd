"""Poll for an effect of a command that a controller of the cluster brings about."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from muster.runtime.realclock import Clock

T = TypeVar("T")

_PAUSE_SECONDS = 0.25


async def wait_for_result(look: Callable[[], Awaitable[T | None]], clock: Clock, seconds: float) -> T | None:
    """Call `look` repeatedly; return its first result that is not None, or None after the timeout.

    seconds: the timeout.
    """
    end = clock.monotonic() + seconds
    while (result := await look()) is None and clock.monotonic() < end:
        await clock.sleep(_PAUSE_SECONDS)
    return result
