"""What Ctrl-C does to the job that is being watched."""

import asyncio
import signal
from collections.abc import Callable, Coroutine

from muster.api.status import ApiError
from muster.runtime.refusals import is_refusal
from muster.runtime.transport import TransportError


class Cancelling:
    """The first interrupt asks for the deletion, the next one leaves at once.

    A deletion that fails is said in one line; the next interrupt then tries once more, and leaves if that fails too.
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
        self.code = 0  # what a shell reports of a program that such a signal ended
        self._tries = 0
        self._failed = False
        self._deletion: asyncio.Task[None] | None = None

    @property
    def begun(self) -> bool:
        """Whether there was an interrupt."""
        return self._tries > 0

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """The user pressed Ctrl-C, or this process is told to end."""
        if number == signal.SIGHUP and self.begun:
            return  # a terminal that closes says so more than once
        self.code = self.code or 128 + number
        if self.begun and not self._failed:
            self._leave()
            return
        self._tries += 1
        self._failed = False
        self._say(f"cancelling {self._name} (again to leave at once)")
        self._deletion = asyncio.create_task(self._try(), name="cancel")

    async def close(self) -> None:
        """Give up a deletion that is under way."""
        if self._deletion is not None:
            self._deletion.cancel()
            await asyncio.wait({self._deletion})

    async def _try(self) -> None:
        try:
            await self._delete()
        except (ApiError, TransportError) as error:
            if is_refusal(error, "NotFound"):
                return  # it is gone, which is what was wanted
            if self._tries == 1:
                self._failed = True
                self._say(f"could not cancel {self._name}: {error} (again to try once more)")
            else:
                self._say(f"could not cancel {self._name}, leaving it: {error}")
                self._leave()
