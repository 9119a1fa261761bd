"""Provide the machine's time. `muster.runtime.clock` adds virtual time, but also imports the event loop."""

import time
from datetime import UTC, datetime
from typing import Protocol

from muster.runtime.eventloop import has_loop


class Clock(Protocol):
    """A source of the time, which can also wait."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return the seconds since some fixed moment. They never decrease, and agree with the running loop's time."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait that many seconds."""
        ...


class RealClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the seconds since some fixed moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait that many seconds. If no event loop runs, the whole thread waits."""
        if not has_loop():
            time.sleep(seconds)  # noqa: ASYNC251 - no other task waits
            return
        import asyncio

        await asyncio.sleep(seconds)
