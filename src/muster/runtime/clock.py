"""Time is given, never taken: the only module that asks the machine what time it is.

`VirtualClock` runs on a loop made by `run_virtual`, whose timers jump: a test that waits five minutes takes
milliseconds, and the order of events is the same on every run. Everything that waits (`asyncio.timeout`,
`Clock.sleep`, `loop.call_later`) waits in virtual time there.
"""

import asyncio
import selectors
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """What time it is, and a way to wait."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back. The same time as the running loop's."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class RealClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class VirtualClock:
    """The clock of a loop made by `run_virtual`: time passes only while everybody waits."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Virtual seconds since the loop was made."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait, in virtual time."""
        await asyncio.sleep(seconds)


class DeadlockError(RuntimeError):
    """Every task waits for something that can no longer happen."""


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting for the next timer, moves the loop's time to it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            waiting = "\n".join(f"  {task!r}" for task in asyncio.all_tasks(asyncio.get_event_loop()))
            raise DeadlockError(f"nothing will ever wake these tasks:\n{waiting}")
        self.now += max(timeout, 0.0)
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time()` is the selector's. Threads and sockets have no place on it."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time; `DeadlockError` when nothing can happen any more."""
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(main)
