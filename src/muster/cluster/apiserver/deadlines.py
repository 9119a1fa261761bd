"""Time limits of requests, with one timer for all of them.

`asyncio.timeout` starts and cancels a timer of the loop for each request, which costs as much as authenticating its
user. Nearly every request finishes long before its deadline, so here a request only adds its deadline and removes it
again.
"""

import asyncio
from types import TracebackType


class Deadlines:
    """The deadlines of the requests in one event loop."""

    def __init__(self) -> None:
        self._ends: dict[_Deadline, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def within(self, seconds: float) -> "_Deadline":
        """Return a context that the current task must leave within this many seconds.

        Otherwise the task gets a `TimeoutError`.
        """
        return _Deadline(self, seconds)

    def add(self, deadline: "_Deadline", seconds: float) -> None:
        """Start a deadline that expires after this many seconds."""
        loop = asyncio.get_running_loop()
        end = self._ends[deadline] = loop.time() + seconds
        if self._timer is None or end < self._timer.when():
            self._set_timer(loop, end)

    def remove(self, deadline: "_Deadline") -> None:
        """Stop a deadline. The timer keeps running for other requests, and does nothing if there are none."""
        self._ends.pop(deadline, None)

    def _set_timer(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(when, self._expire_due)

    def _expire_due(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for deadline in [deadline for deadline, end in self._ends.items() if end <= now]:
            del self._ends[deadline]
            deadline.expire()
        if self._ends:
            self._set_timer(loop, min(self._ends.values()))


class _Deadline:
    """The deadline of one task's work, as a context."""

    __slots__ = ("_cancelled_before", "_deadlines", "_has_expired", "_seconds", "_task")

    _task: "asyncio.Task[object]"

    def __init__(self, deadlines: Deadlines, seconds: float) -> None:
        self._deadlines = deadlines
        self._seconds = seconds
        self._has_expired = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a request is a task"
        self._task, self._cancelled_before = task, task.cancelling()
        self._deadlines.add(self, self._seconds)

    def expire(self) -> None:
        """Cancel the task, because its deadline has passed."""
        self._has_expired = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadlines.remove(self)
        # If another caller has cancelled the task, too, it stays cancelled, as with `asyncio.timeout`.
        if self._has_expired and self._task.uncancel() <= self._cancelled_before and kind is asyncio.CancelledError:
            raise TimeoutError from error
