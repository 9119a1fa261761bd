"""Detect when the time of day has jumped, as after a night of sleep, or when an administrator set the clock.

Delays run by the monotonic clock. So code that waits for a time of day must decide again after a jump.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from muster.runtime.clock import Clock

# How often the time of day is compared with the monotonic clock, and the difference that counts as a jump.
CLOCK_SECONDS = 10.0
JUMP = timedelta(seconds=1)


async def follow_jumps(clock: Clock, on_jump: Callable[[], None]) -> None:
    """Call `on_jump` whenever the time of day has jumped; never return."""
    known = _find_offset(clock)
    while True:
        await clock.sleep(CLOCK_SECONDS)
        offset = _find_offset(clock)
        if abs(offset - known) > JUMP:
            known = offset
            on_jump()


def _find_offset(clock: Clock) -> datetime:
    """Return the time of day at which the monotonic clock started."""
    return clock.now() - timedelta(seconds=clock.monotonic())
