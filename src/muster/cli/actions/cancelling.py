"""Ends jobs: what `muster cancel` does to one, and Ctrl-C to the one that is being watched."""

import asyncio
import signal
from collections.abc import Callable, Coroutine

from muster.api.batch import JOB
from muster.api.status import ApiError
from muster.cli.names.choices import get_job
from muster.insight.jobstate import CANCELLED
from muster.insight.reader.queues import is_embedded
from muster.jobs.job.conditions import FAILURE_TARGET, announced, finish
from muster.runtime.client import Client
from muster.runtime.refusals import is_refusal
from muster.runtime.transport import STRATEGIC_MERGE_PATCH, TransportError


async def cancel(client: Client, name: str, namespace: str, *, delete: bool = False) -> str:
    """End a job gracefully; what has become of it, in a word or two. Raises `ApiError`, `TransportError`.

    In a cluster of ours it is marked as about to fail, in the words in which Kubernetes says it: the Job controller
    then ends its pods, and the node keeps what they printed. Elsewhere logs go with the pods, and the job is deleted.
    """
    if delete or not await is_embedded(client):
        await client.delete(JOB, name, namespace, propagation="Foreground")
        return "deleted" if delete else "cancelled"
    job = await get_job(client, name, namespace)
    if finish(job) is not None:
        return "has ended already (--delete removes what is known of it)"
    if announced(job) is None:
        condition = {"type": FAILURE_TARGET, "status": "True", "reason": CANCELLED, "message": "It was cancelled"}
        patch = {"status": {"conditions": [condition]}}
        await client.patch_object(JOB, job, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status")
    return "cancelled"


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
