"""Provide the time. In servers and commands, only this module and `realclock` read the machine's clocks.

`VirtualClock` runs on a loop made by `run_virtual`, whose timers jump: a test that waits five minutes takes
milliseconds, and the order of events is the same on every run. Everything that waits (`asyncio.timeout`, `Clock.sleep`,
`loop.call_later`) waits in virtual time there. Nothing from outside can reach that loop: threads, sockets, pipes and
processes are refused with an error that says so.
"""

import asyncio
import math
import selectors
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

from muster.runtime.realclock import Clock, RealClock

__all__ = [
    "Clock",
    "DeadlockError",
    "OutsideWorldError",
    "RealClock",
    "StandstillError",
    "VirtualClock",
    "boot_nanoseconds",
    "process_seconds",
    "run_virtual",
]

T = TypeVar("T")

# More iterations of the loop than this while time stands still are a busy loop: some twenty seconds of real time.
STANDSTILL_TURNS = 10_000_000
# A report names at most so many tasks.
_REPORTED_TASKS = 50


def boot_nanoseconds() -> int:
    """Return the nanoseconds since the machine was started, including sleep. All processes read the same clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def process_seconds() -> float:
    """Return the seconds of CPU time that this process has used."""
    return time.process_time()


class VirtualClock:
    """The clock of an event loop made by `run_virtual`. Time passes only while every task waits."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return self._start + timedelta(seconds=self.monotonic())

    def set_ahead(self, seconds: float) -> None:
        """Set the time of day forwards (or backwards, if negative), as an administrator might.

        `monotonic` does not change.
        """
        self._start += timedelta(seconds=seconds)

    def monotonic(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait, in virtual time."""
        await asyncio.sleep(seconds)


class DeadlockError(RuntimeError):
    """A deadlock: every task waits for an event that can no longer happen."""


class StandstillError(RuntimeError):
    """A standstill: tasks wake each other for ever, so that virtual time does not pass."""


class OutsideWorldError(RuntimeError):
    """A wait for something that virtual time does not control: a thread, socket, pipe or process."""


class _JumpingSelector(selectors.BaseSelector):
    """A selector that never waits: it moves the loop's time to the next timer."""

    def __init__(self) -> None:
        self.now = 0.0
        self._turns = 0
        self._sealed = False
        self._keys: dict[int, selectors.SelectorKey] = {}

    def seal(self) -> None:
        """Refuse to register further files. The files that the loop itself registered stay."""
        self._sealed = True

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError(f"nothing will ever wake these tasks:\n{_list_waiters()}")
        if timeout > 0.0:
            self.now += timeout
            self._turns = 0
        else:
            self._turns += 1
            if self._turns > STANDSTILL_TURNS:
                self._turns = 0  # the loop must still turn to cancel them
                raise StandstillError(f"time stands still at {self.now:g} s while these tasks run:\n{_list_waiters()}")
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self._sealed:
            _refuse("a file descriptor")
        key = selectors.SelectorKey(fileobj, _get_descriptor(fileobj), events, data)
        self._keys[key.fd] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(_get_descriptor(fileobj))

    def get_map(self) -> dict[int, selectors.SelectorKey]:  # type: ignore[override]
        return self._keys


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time()` is the time of its selector."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._jumping.seal()

    def time(self) -> float:
        return self._jumping.now

    @property
    def _clock_resolution(self) -> float:
        """The tolerance that the base class adds to the time to find due timers.

        It stays large enough after virtual years.
        """
        return max(1e-9, 2.0 * math.ulp(self._jumping.now))

    @_clock_resolution.setter
    def _clock_resolution(self, real: float) -> None:
        """Ignore the resolution of the machine's clock, which the base class sets."""

    def run_in_executor(self, *_: Any) -> NoReturn:  # type: ignore[override]
        _refuse("a thread")

    async def subprocess_exec(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("a process")

    async def subprocess_shell(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("a process")


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time. Raises `DeadlockError` when nothing can happen any more.

    If the calling thread already runs an event loop, as in a cell of a notebook, the coroutine runs in another thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run_in_this_thread(main)
    from concurrent.futures import ThreadPoolExecutor  # the import fails after the main thread has ended

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_run_in_this_thread, main).result()


def _run_in_this_thread(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(main)


def _get_descriptor(fileobj: Any) -> int:
    return fileobj if isinstance(fileobj, int) else fileobj.fileno()


def _refuse(operation: str) -> NoReturn:
    raise OutsideWorldError(f"{operation} cannot be waited for in virtual time; this belongs on a real event loop")


def _list_waiters() -> str:
    """Return a list of every task with the places in which it waits, outermost first, as text."""
    tasks = sorted(asyncio.all_tasks(asyncio.get_event_loop()), key=lambda task: task.get_name())
    lines = [f"  {task.get_name()}: {_place(task)}" for task in tasks[:_REPORTED_TASKS]]
    if len(tasks) > _REPORTED_TASKS:
        lines.append(f"  and {len(tasks) - _REPORTED_TASKS} more")
    return "\n".join(lines)


def _place(task: asyncio.Task[Any]) -> str:
    places = []
    waiting: Any = task.get_coro()
    while waiting is not None:
        frame = _get_attribute(waiting, "cr_frame", "gi_frame", "ag_frame")
        if isinstance(frame, FrameType):
            code = frame.f_code
            places.append(f"{code.co_qualname} ({Path(code.co_filename).name}:{frame.f_lineno})")
        waiting = _get_attribute(waiting, "cr_await", "gi_yieldfrom", "ag_await")
    return " > ".join(places) or repr(task)


def _get_attribute(obj: Any, *names: str) -> Any:
    return next((getattr(obj, name) for name in names if hasattr(obj, name)), None)
