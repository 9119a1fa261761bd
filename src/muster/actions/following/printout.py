"""Print the existing output of a job, from this cluster or from the worker cluster that ran the job."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from muster.actions.following.containerlog import ContainerLog
from muster.actions.following.elsewhere import OutOfReachError, Reach, cluster_of, copy_of
from muster.actions.following.excerpt import WHOLE, Excerpt
from muster.api.core import ContainerStatus, Pod
from muster.api.meta import ObjectMeta
from muster.api.status import ApiError
from muster.insight.jobs.attempts import WorkerAttempt, choose_attempts, list_attempts
from muster.insight.reader.engine import is_embedded
from muster.insight.reader.jobs.pods import read_own_pods
from muster.insight.record import JobRecord
from muster.runtime.client import Client
from muster.runtime.containerlogs import KeptPod
from muster.runtime.realclock import Clock
from muster.runtime.refusals import ignoring, is_refusal
from muster.runtime.transport import Request

# Called with a piece of output, the title of its worker, and its stream.
ShowOutput: TypeAlias = Callable[[str, bytes, bytes], Awaitable[None]]


class Printout(msgspec.Struct, frozen=True):
    """A printer of one job's existing output.

    show: called with each piece of output.
    warn: called with a sentence about missing output.
    excerpt: the output to show.
    reach: opens clients for worker clusters that run the job; None to show no output from worker clusters.
    """

    client: Client
    clock: Clock
    namespace: str
    name: str
    show: ShowOutput
    warn: Callable[[str], None]
    excerpt: Excerpt = WHOLE
    reach: Reach | None = None

    async def print_once(self, job: JobRecord, number: int | None = None, *, previous: bool = False) -> None:
        """Show the existing output of the job, including output from the worker cluster that ran it.

        number, previous: which attempts to show, as in `choose_attempts`.

        Raises `ApiError`, `TransportError`, and `LookupError` if no container has the requested attempt.
        """
        if job.remote_counts is not None and (cluster := await cluster_of(self.client, job)):
            await self._print_there(job, cluster, number, previous=previous)
            return
        raw = await is_embedded(self.client)
        attempts = await self.list_attempts(job, await read_own_pods(self.client, job), raw=raw)
        chosen_attempts = choose_attempts(attempts, number, previous=previous)
        if not chosen_attempts and (previous or number is not None):
            runs = Counter((attempt.worker, attempt.container) for attempt in attempts)
            most = max(runs.values(), default=0)
            raise LookupError(f"{self.name} has {most} {'attempt' if most == 1 else 'attempts'} with a log")
        if not attempts:
            self.warn(_explain_no_output(job, self.excerpt))
        for attempt in chosen_attempts:
            with ignoring("NotFound"):  # the pod was deleted in the meantime, together with its log
                await self.make_log_of_attempt(job, attempt, raw=raw).copy_once(attempt.path, attempt.query)

    async def list_attempts(self, job: JobRecord, pods: Iterable[Pod], *, raw: bool) -> list[WorkerAttempt]:
        """Return the attempts of the selected workers, including those of deleted pods whose logs the server stores.

        raw: whether the server is Muster's own, which stores such logs and returns logs unchanged.
        """
        kept_pods: list[KeptPod] = []
        if raw:
            answer = await self.client.raw(Request("GET", job.kind.path(self.namespace, self.name, "log")))
            kept_pods = msgspec.json.decode(answer.body, type=_Kept).items
        attempts = list_attempts(job, pods, kept_pods, ours=raw)
        return [attempt for attempt in attempts if self.excerpt.has(attempt.rank)]

    def make_log_of_attempt(self, job: JobRecord, attempt: WorkerAttempt, *, raw: bool) -> ContainerLog:
        """Return the log of the container that ran this attempt."""
        pod = Pod(metadata=ObjectMeta(name=attempt.pod, namespace=self.namespace))
        return self.make_log(pod, ContainerStatus(name=attempt.container), job.title_of(attempt.rank), raw=raw)

    def make_log(self, pod: Pod, status: ContainerStatus, title: str, *, raw: bool) -> ContainerLog:
        """Return the log of a container, to be shown under the title of its worker."""
        show = partial(self.show, title)
        return ContainerLog(
            self.client, self.clock, pod, status, raw=raw, show=show, warn=self.warn, excerpt=self.excerpt
        )

    async def _print_there(self, job: JobRecord, cluster: str, number: int | None, *, previous: bool) -> None:
        """Show the existing output of a job that runs in a worker cluster; nothing if `reach` is None.

        If the cluster cannot be reached, or has deleted the job, the user is warned.

        number, previous: which attempts to show, as in `choose_attempts`.
        """
        if self.reach is None:
            return
        try:
            async with self.reach(cluster) as client:
                there = replace(self, client=client, reach=None)
                copy = await copy_of(self.client, client, job)
                await there.print_once(copy, number, previous=previous)
        except OutOfReachError as error:
            self.warn(f"{self.name}: {error}")
        except ApiError as error:
            if not is_refusal(error, "NotFound"):
                raise
            self.warn(f"{self.name}: it ran in cluster {cluster}, which has deleted it with its output")


def _explain_no_output(job: JobRecord, excerpt: Excerpt) -> str:
    """Return a sentence that explains why the job, or its selected workers, have no output."""
    name = job.metadata.name
    whose = " of that rank" if len(excerpt.ranks) == 1 else " of those ranks" if excerpt.ranks else ""
    if job.end is not None:
        return f"{name}: there is no output{whose}: it was not started, or its pods are gone"
    return f"{name}: there is no output{whose} yet; muster why {name} says what it waits for"


class _Kept(msgspec.Struct, frozen=True):
    """The response of a job's `log` subresource: the pods whose logs the server stores."""

    items: list[KeptPod]
