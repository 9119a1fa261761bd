"""Ends jobs: what `muster cancel` does to one, and Ctrl-C to the one that is being watched."""

import asyncio
import signal
from collections.abc import Callable, Coroutine

import msgspec

from muster.api.batch import JOB, Job
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.status import ApiError
from muster.cli.names.choices import get_job
from muster.insight.reader.queues import is_embedded
from muster.insight.record import CANCELLED
from muster.jobs.job.conditions import FAILURE_TARGET, announced
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.refusals import is_refusal
from muster.runtime.transport import STRATEGIC_MERGE_PATCH, TransportError

# How often a JobSet may have changed between being read and being written.
ATTEMPTS = 10


async def cancel(client: Client, name: str, namespace: str, *, delete: bool = False) -> str:
    """End a job gracefully; what has become of it, in a word or two. Raises `ApiError`, `TransportError`.

    In a cluster of ours it is marked as failed, in the words in which Kubernetes says it: its controller then ends its
    pods, and the node keeps what they printed. Elsewhere logs go with the pods, and the job is deleted.
    """
    job = await get_job(client, name, namespace)
    if delete or not await is_embedded(client):
        await client.delete(job.kind, name, namespace, propagation="Foreground", uid=job.metadata.uid)
        return "deleted" if delete else "cancelled"
    for attempt in range(1, ATTEMPTS + 1):
        if job.end is not None:
            return "has ended already (--delete removes what is known of it)"
        try:
            await _mark(client, job.source)
        except ApiError as error:
            if error.code != 409 or attempt == ATTEMPTS:
                raise
            job = await get_job(client, name, namespace)
        else:
            return "cancelled"
    raise AssertionError("the last attempt returns or raises")


async def _mark(client: Client, job: Job | JobSet) -> None:
    """The pods of a Job end first, then it fails; a JobSet fails, and therefore its Jobs go."""
    if isinstance(job, JobSet):
        await _fail(client, job)
    elif announced(job) is None:
        condition = {"type": FAILURE_TARGET, "status": "True", **_SAID}
        patch = {"status": {"conditions": [condition]}}
        await client.patch_object(JOB, job, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status")


async def _fail(client: Client, jobset: JobSet) -> None:
    """A list is replaced as a whole, so nothing may have changed in it."""
    others = [msgspec.to_builtins(one) for one in jobset.status.conditions if one.type != names.FAILED]
    now = RealClock().now().isoformat(timespec="seconds").replace("+00:00", "Z")
    condition = {"type": names.FAILED, "status": "True", "lastTransitionTime": now, **_SAID}
    patch = {"status": {"conditions": [*others, condition], "terminalState": names.FAILED}}
    await client.patch_object(JOB_SET, jobset, patch, subresource="status")


_SAID = {"reason": CANCELLED, "message": "It was cancelled"}


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
