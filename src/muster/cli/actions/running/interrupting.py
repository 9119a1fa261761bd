"""Handle Ctrl-C while the user watches a job."""

import asyncio
import signal
from collections.abc import Callable, Coroutine

from muster.api.status import ApiError
from muster.runtime.refusals import is_refusal
from muster.runtime.transport import TransportError


class Cancelling:
    """The handler of interrupts while a job's output is shown.

    The first interrupt cancels the job, and the next one terminates the command at once. If the cancellation fails, a
    line is printed; the next interrupt then tries again, and terminates the command if that fails, too.
    """

    def __init__(
        self,
        name: str,
        delete: Callable[[], Coroutine[None, None, None]],
        leave: Callable[[], object],
        say: Callable[[str], None],
    ) -> None:
        self._name = name
        self._delete = delete
        self._leave = leave
        self._say = say
        self.code = 0  # the exit code that a shell reports for this signal
        self._left = False  # whether the job continues without this process
        self._tries = 0
        self._failed = False
        self._deletion: asyncio.Task[None] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the user has interrupted the command."""
        return self.code > 0

    def record_signal(self, number: int) -> None:
        """Record an interrupt at once, because it determines the exit code. The event loop calls `interrupt` later.

        Do nothing after `leave_job`.
        """
        if not self._left:
            self.code = self.code or 128 + number

    def leave_job(self) -> bool:
        """Let the job continue without this command, unless the user has interrupted it; return whether it continues.

        If it continues, later interrupts are ignored.
        """
        self._left = True
        if self.has_begun:
            self._left = False
        return self._left

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """Handle a termination signal: the first one cancels the job, the next one terminates the command.

        After a failed cancellation, the next signal tries again.
        """
        if self._left or (number == signal.SIGHUP and self._tries):
            return  # a closing terminal sends SIGHUP more than once
        self.record_signal(number)
        if self._tries and not self._failed:
            self._leave()
            return
        self._tries += 1
        self._failed = False
        self._say(f"cancelling {self._name} (again to leave at once)")
        self._deletion = asyncio.create_task(self._try_deletion(), name="cancel")

    async def close(self) -> None:
        """Cancel the request that cancels the job, if it is still running."""
        if self._deletion is not None:
            self._deletion.cancel()
            await asyncio.wait({self._deletion})

    async def _try_deletion(self) -> None:
        try:
            await self._delete()
        except (ApiError, TransportError) as error:
            if is_refusal(error, "NotFound"):
                return  # the job is deleted already
            if self._tries == 1:
                self._failed = True
                self._say(f"could not cancel {self._name}: {error} (again to try once more)")
            else:
                self._say(f"could not cancel {self._name}, leaving it: {error}")
                self._leave()
