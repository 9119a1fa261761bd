"""Follows a job: prints what its workers print, says on stderr what it waits for, and returns how it ended."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from muster.api.batch import COMPLETION_INDEX, JOB, Job
from muster.api.core import POD, ContainerStatus, Pod
from muster.api.status import ApiError
from muster.cli.jobstate import Ending, JobState, ending, job_state
from muster.runtime.client import Client, lines
from muster.runtime.clock import Clock
from muster.runtime.ids import Random
from muster.runtime.informer import Informer
from muster.runtime.objects import key_of
from muster.runtime.transport import Request, TransportError

JOB_NAME_LABEL = "batch.kubernetes.io/job-name"

# A log stream that broke is taken up again after so long.
RETRY_SECONDS = 0.5


@dataclass(slots=True)
class Follower:
    """One job under observation. `show(rank, line)` gets every line of output, `report(state)` every change."""

    client: Client
    clock: Clock
    random: Random
    namespace: str
    name: str
    show: Callable[[str, bytes], None] | None = None
    report: Callable[[JobState], None] = lambda _: None
    rank: str = ""  # only this worker's output
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _streams: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def run(self) -> Ending:
        """Follow the job to its end, and its output to the last line. Raises `ApiError` (NotFound)."""
        job = await self.client.get(JOB, self.name, self.namespace)
        jobs = Informer(
            self.client, JOB, self.clock, self.random, namespace=self.namespace, fields=f"metadata.name={self.name}"
        )
        pods = Informer(
            self.client, POD, self.clock, self.random, namespace=self.namespace, labels=f"{JOB_NAME_LABEL}={self.name}"
        )
        for informer in (jobs, pods):
            informer.on_change(lambda _old, _new: self._changed.set())
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(informer.run()) for informer in (jobs, pods)]
            try:
                return await self._until_finished(job.metadata.uid, jobs, pods)
            finally:
                for task in (*running, *self._streams.values()):
                    task.cancel()

    async def _until_finished(self, uid: str, jobs: Informer[Job], pods: Informer[Pod]) -> Ending:
        await jobs.synced.wait()
        await pods.synced.wait()
        last: JobState | None = None
        while True:
            self._changed.clear()
            job = jobs.get(f"{self.namespace}/{self.name}")
            if job is None or job.metadata.uid != uid:
                await self._drain()
                return Ending(1, "it was deleted")
            mine = [pod for pod in pods.all() if _belongs_to(pod, uid)]
            self._stream(mine)
            state = job_state(job, mine)
            if state != last:
                self.report(state)
                last = state
            if state.finished:
                await self._drain()
                return ending(job, mine)
            await self._changed.wait()

    async def _drain(self) -> None:
        """Wait for the last lines."""
        if self._streams:
            await asyncio.wait(self._streams.values())

    def _stream(self, pods: list[Pod]) -> None:
        """Follow every container that has started and is not followed yet."""
        if self.show is None:
            return
        for pod in pods:
            rank = rank_of(pod)
            if self.rank and rank != self.rank:
                continue
            for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
                key = f"{pod.metadata.uid}/{status.name}"
                if key not in self._streams and _has_started(status):
                    work = self._copy(pod, status.name, rank)
                    self._streams[key] = asyncio.create_task(work, name=f"logs-{key_of(pod)}")

    async def _copy(self, pod: Pod, container: str, rank: str) -> None:
        """Show all of a container's output; a stream that breaks is resumed after the last line shown."""
        assert self.show is not None
        path = POD.path(pod.metadata.namespace, pod.metadata.name, "log")
        query = {"follow": "true", "container": container, "timestamps": "true"}
        place = _Place()
        while True:
            try:
                async with self.client.transport.stream(Request("GET", path, query)) as chunks:
                    place = place.again()
                    async for line in lines(chunks):
                        stamp, _, text = line.partition(b" ")
                        if place.is_new(stamp):
                            self.show(rank, text)
            except TransportError:
                await self.clock.sleep(RETRY_SECONDS)
            except ApiError as error:
                if error.code != 404:  # the pod is gone, and its output with it
                    raise
                return
            else:
                return


@dataclass(slots=True)
class _Place:
    """How far a log has been shown. Lines are in the order of their stamps, which several may share."""

    stamp: bytes = b""
    shown: int = 0  # lines with that stamp
    skip: int = 0  # of these, lines still to be passed by when the log is read again

    def again(self) -> "_Place":
        """The same place in a log that is read from its beginning."""
        return _Place(self.stamp, self.shown, self.shown)

    def is_new(self, stamp: bytes) -> bool:
        """Whether the next line, with that stamp, has not been shown."""
        if stamp < self.stamp:
            return False
        if stamp > self.stamp:
            self.stamp, self.shown, self.skip = stamp, 1, 0
            return True
        if self.skip:
            self.skip -= 1
            return False
        self.shown += 1
        return True


def rank_of(pod: Pod) -> str:
    """The worker's index in its job, or the last part of the pod's name."""
    return pod.metadata.annotations.get(COMPLETION_INDEX) or pod.metadata.name.rpartition("-")[2]


def _belongs_to(pod: Pod, job_uid: str) -> bool:
    return any(owner.uid == job_uid for owner in pod.metadata.owner_references)


def _has_started(status: ContainerStatus) -> bool:
    return status.state.running is not None or status.state.terminated is not None
