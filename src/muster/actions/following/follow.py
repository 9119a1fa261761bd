"""Follows a job: prints what its workers print, says on stderr what it waits for, and returns how it ended."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from muster.actions.choices import get_job
from muster.actions.following.containerlog import ContainerLog, has_log
from muster.actions.following.elsewhere import OutOfReachError, Reach, cluster_of, copy_of
from muster.actions.following.excerpt import WHOLE, Excerpt
from muster.actions.following.queuewatch import POSITION_SECONDS, QueueWatch, has_workloads, labels_of
from muster.api.batch import JOB, Job
from muster.api.core import POD, ContainerStatus, Pod
from muster.api.jobset import JOB_SET, JobSet
from muster.api.jobset.names import JOBSET_NAME
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.meta import ObjectMeta
from muster.api.pods import ended_with_cluster, is_active
from muster.api.status import ApiError
from muster.insight.attempts import Attempt, attempts, chosen
from muster.insight.failures import absent
from muster.insight.jobstate import Ending, JobState, ending, job_state
from muster.insight.reader.queues import is_embedded
from muster.insight.record import JobRecord, record_of, statuses
from muster.insight.tally import Tally, tally
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.containerlogs import KeptPod
from muster.runtime.ids import Random
from muster.runtime.informer import Informer
from muster.runtime.objects import key_of
from muster.runtime.refusals import is_refusal
from muster.runtime.transport import Request, TransportError

if TYPE_CHECKING:
    from muster.insight.never import Room

T = TypeVar("T")


# The server is asked this often whether it is there, waited for that long, and given up after so long without a word.
PROBE_SECONDS = 2.0
PROBE_TIMEOUT_SECONDS = 10.0
GONE_SECONDS = 30.0

# A sweep is looked at again after so long for each of its pods.
SECONDS_PER_TRIAL = 0.0001

_DELETED = Ending(1, "it was deleted")


@dataclass(slots=True)
class Follower:
    """One job under observation.

    show: gets all output, with what its worker is called and the stream.
    report: gets every change. count: gets every change of how far its workers are.
    warn: gets what the user should know of output that does not come, and of a server that does not answer.
    reach: the way to other clusters that run the job; without it, no output comes from there.
    """

    client: Client
    clock: Clock
    random: Random
    namespace: str
    name: str
    show: Callable[[str, bytes, bytes], Awaitable[None]] | None = None
    report: Callable[[JobState], None] = lambda _: None
    count: Callable[[Tally], None] = lambda _: None
    warn: Callable[[str], None] = lambda _: None
    excerpt: Excerpt = WHOLE  # which output is shown
    observe: Callable[[Pod, str], None] = lambda _pod, _rank: None  # gets every state of a pod, with the worker's rank
    reach: Reach | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _logs: dict[tuple[str, str], ContainerLog] = field(default_factory=dict)  # by pod and container
    _room: "tuple[str, Room] | None" = None  # in the cluster, when the job began to wait for that reason
    _copies: list[asyncio.Task[None]] = field(default_factory=list)
    _raw: bool = False  # the server is ours, and gives logs as they are
    _stopping: bool = False  # the whole cluster is: the job's pods have ended with it
    _there: dict[str, asyncio.Task[None]] = field(default_factory=dict)  # who follows it in other clusters, by cluster
    _known_there: set[str] = field(default_factory=set)  # the UIDs of its copies there
    _ended_there: Ending | None = None

    async def run(self, job: JobRecord | None = None) -> Ending:
        """Follow the job to its end, and its output to the last line. job: what there is to know of it, if it is known.

        Raises `ApiError` (NotFound; output that may not be read), `TransportError` when the server is gone for good.
        """
        job = job or await get_job(self.client, self.name, self.namespace)
        self._raw = self.show is not None and await is_embedded(self.client)
        watched = _Watched.of(self, job)
        pods = self.informer(POD, labels=job.pod_labels)
        queue = await self._queue(job.metadata.uid)
        informers: list[Informer[Any]] = [*watched.informers, pods, *([queue.workloads] if queue is not None else [])]
        for informer in informers:
            informer.on_change(lambda _old, _new: self._changed.set())
        try:
            async with asyncio.TaskGroup() as group:
                works = [*(informer.run() for informer in informers), self._until_gone()]
                helpers = [group.create_task(work) for work in works]
                try:
                    for informer in informers:
                        await informer.synced.wait()
                    return await self._until_finished(group, job.metadata.uid, watched, pods, queue)
                finally:
                    for task in (*helpers, *self._copies):
                        task.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    def informer(self, kind: Kind[T], *, labels: str = "", fields: str = "") -> "Informer[T]":
        """One that follows a kind quietly."""
        return _QuietInformer(
            self.client, kind, self.clock, self.random, namespace=self.namespace, labels=labels, fields=fields
        )

    async def print_once(self, job: JobRecord, number: int | None = None, *, previous: bool = False) -> None:
        """Show the output of the job that there is now, as `attempts.chosen` says.

        Raises `ApiError`, `TransportError`; `LookupError` if an attempt is asked for that none has.
        """
        assert self.show is not None
        if job.elsewhere is not None and (cluster := await cluster_of(self.client, job)):
            await self._print_there(job, cluster, number, previous=previous)
            return
        self._raw = await is_embedded(self.client)
        pods = (await self.client.list(POD, self.namespace, labels=job.pod_labels)).items
        found = await self._attempts(job, [pod for pod in pods if job.owns(pod)])
        wanted = chosen(found, number, previous=previous)
        if not wanted and (previous or number is not None):
            runs = Counter((attempt.worker, attempt.container) for attempt in found)
            most = max(runs.values(), default=0)
            raise LookupError(f"{self.name} has {most} {'attempt' if most == 1 else 'attempts'} with a log")
        if not found:
            self.warn(_unheard(job, self.excerpt))
        for attempt in wanted:
            await self._log_of(job, attempt).copy_once(attempt.path, attempt.query)

    async def _print_there(self, job: JobRecord, cluster: str, number: int | None, *, previous: bool) -> None:
        """Show the output that there is in another cluster."""
        if self.reach is None:
            return
        try:
            async with self.reach(cluster) as client:
                there = self._elsewhere(client)
                copy = await copy_of(self.client, client, job)
                await there.print_once(copy, number, previous=previous)
        except OutOfReachError as error:
            self.warn(f"{self.name}: {error}")
        except ApiError as error:
            if not is_refusal(error, "NotFound"):
                raise
            self.warn(f"{self.name}: it ran in cluster {cluster}, where nothing of it is left, its output neither")

    async def _follow_there(self, job: JobRecord, cluster: str) -> None:
        """Show what the job prints in another cluster, to its end there. What fails there is said, and not raised."""
        assert self.reach is not None
        try:
            async with self.reach(cluster) as client:
                copy = await copy_of(self.client, client, job)
                if copy.metadata.uid in self._known_there:
                    return
                self._known_there.add(copy.metadata.uid)
                ending = await self._elsewhere(client).run(copy)
                self._ended_there = ending if ending != _DELETED else None
        except OutOfReachError as error:
            self._known_there.add(cluster)
            self.warn(f"{self.name}: {error}")
        except (ApiError, TransportError) as error:
            if not is_refusal(error, "NotFound"):  # it is on its way, or has gone again
                self.warn(f"{self.name}: what it prints in cluster {cluster} is not shown: {error}")

    def _elsewhere(self, client: Client) -> "Follower":
        """Of its copy in another cluster."""
        return Follower(
            client,
            self.clock,
            self.random,
            self.namespace,
            self.name,
            show=self.show,
            warn=self.warn,
            excerpt=self.excerpt,
        )

    def _look_elsewhere(self, group: asyncio.TaskGroup, job: JobRecord, cluster: str) -> None:
        """Follow it there, unless that is done or cannot be."""
        before = self._there.get(cluster)
        wanted = self.show is not None and self.reach is not None and cluster and cluster not in self._known_there
        if wanted and (before is None or before.done()):
            self._there[cluster] = task = group.create_task(self._follow_there(job, cluster), name=f"in-{cluster}")
            self._copies.append(task)

    async def _print_gone(self, job: JobRecord, pods: list[Pod]) -> None:
        """Show what pods have left that went before they could be followed, or could be to the end."""
        if self.show is None or not self._raw:
            return
        try:
            for attempt in chosen(await self._attempts(job, pods), None, previous=False):
                followed = self._logs.get((attempt.uid, attempt.container))
                if attempt.gone and (followed is None or followed.is_cut):
                    await (followed or self._log_of(job, attempt)).copy_once(attempt.path, attempt.query)
        except (ApiError, TransportError) as error:
            if not is_refusal(error, "NotFound"):  # the job is gone, and all of it
                self.warn(f"what gone workers of {self.name} have printed is not shown: {error}")

    async def _attempts(self, job: JobRecord, pods: list[Pod]) -> list[Attempt]:
        kept: list[KeptPod] = []
        if self._raw:
            answer = await self.client.raw(Request("GET", job.kind.path(self.namespace, self.name, "log")))
            kept = msgspec.json.decode(answer.body, type=_Kept).items
        found = attempts(job, pods, kept, ours=self._raw)
        return [attempt for attempt in found if self.excerpt.has(attempt.rank)]

    async def _until_gone(self) -> None:
        """Raises `TransportError` once the cluster was stopped, or the server has not answered for too long."""
        answered, is_there = self.clock.monotonic(), True
        while True:
            try:
                await self.client.transport.request(Request("GET", "/version", timeout_seconds=PROBE_TIMEOUT_SECONDS))
                answered, is_there = self.clock.monotonic(), True
            except TransportError as error:
                if self._stopping:
                    again = f"the job goes on at the next muster up: muster logs -f {self.name}"
                    raise TransportError(f"the cluster was stopped; {again}") from error
                if self.clock.monotonic() - answered >= GONE_SECONDS:
                    raise TransportError(
                        f"gave up on {self.name}: the server has been gone for {GONE_SECONDS:g} s: {error}"
                    ) from error
                if is_there:
                    self.warn(f"{self.name}: the server does not answer; trying for {GONE_SECONDS:g} s: {error}")
                is_there = False
            await self.clock.sleep(PROBE_SECONDS)

    async def _queue(self, job_uid: str) -> QueueWatch | None:
        """None where there are no Workloads to be seen."""
        if not await has_workloads(self.client, self.namespace, job_uid):
            return None
        return QueueWatch(self.client, self.clock, self.informer(WORKLOAD, labels=labels_of(job_uid)), job_uid)

    async def _until_finished(
        self,
        group: asyncio.TaskGroup,
        uid: str,
        watched: "_Watched",
        pods: Informer[Pod],
        queue: QueueWatch | None,
    ) -> Ending:
        last: JobState | None = None
        counted: Tally | None = None
        late, quiet = "", False
        earlier = {pod.metadata.uid for pod in pods.all() if ended_with_cluster(pod)}
        while True:
            self._changed.clear()
            job = watched.now()
            if job is None or job.metadata.uid != uid:
                await self._drain()
                return _DELETED
            mine = [pod for pod in pods.all() if job.owns(pod)]
            self._observe(group, job, mine)
            self._stopping = _ends_with_cluster(pod for pod in mine if pod.metadata.uid not in earlier)
            stands = await queue.quota_state() if queue is not None else None
            self._look_elsewhere(group, job, stands.cluster if stands is not None else "")
            state = job_state(job, mine, stands)
            state = await self._doubted(job, state)
            if quiet and state.outside:  # as a rule it is taken in at once
                state = await self._kept_out(uid, state)
            late = absent(job, mine) or late
            if state != last and not self._stopping:
                self.report(state)
                last = state
            if job.array is None and (now := tally(job, mine)) != counted:
                self.count(now)
                counted = now
            if state.finished:
                mine = await self._as_they_ended(job, mine)
                self._observe(group, job, mine)
                await self._drain()
                await self._print_gone(job, mine)
                return await self._ending(job, ending(job, mine, late))
            waits = state.outside or (stands is not None and stands.waits)
            if job.array is not None:  # many trials change often, and each time all of them are looked at
                await self.clock.sleep(len(mine) * SECONDS_PER_TRIAL)
            quiet = not await self._change(POSITION_SECONDS if waits else None)

    async def _ending(self, job: JobRecord, here: Ending) -> Ending:
        """How it ended; the cluster that ran it knows with which code."""
        there = self._ended_there
        if here.code and there is None and job.elsewhere is not None:
            there = await self._told_there(job)
        return there if here.code and there is not None and there.code else here

    async def _told_there(self, job: JobRecord) -> Ending | None:
        """What is to be seen of its end in the cluster that ran it; None if that cannot be asked."""
        cluster = await cluster_of(self.client, job)
        if not cluster or self.reach is None:
            return None
        try:
            async with self.reach(cluster) as client:
                copy = await copy_of(self.client, client, job)
                pods = (await client.list(POD, self.namespace, labels=copy.pod_labels)).items
                return ending(copy, [pod for pod in pods if copy.owns(pod)])
        except (ApiError, OutOfReachError, TransportError):
            return None

    async def _doubted(self, job: JobRecord, state: JobState) -> JobState:
        """With the reason why it cannot start as things are; found out again when it waits for something else."""
        if not state.stuck:
            return state
        if self._room is None or self._room[0] != state.reason:
            from muster.insight.reader.lists import Lists
            from muster.insight.reader.room import survey

            try:
                self._room = state.reason, await survey(Lists(self.client), self.namespace)
            except (ApiError, TransportError):
                return state
        from muster.insight.never import doubted  # it takes a while to load

        return doubted(job, state, self._room[1])

    async def _kept_out(self, uid: str, state: JobState) -> JobState:
        """With the reason why its queue does not take it in, if that is told."""
        from muster.insight.reader.jobs import uncomposed

        try:
            return state.kept_out((await uncomposed(self.client, self.namespace)).get(uid, ""))
        except TransportError:  # whether the server is there is watched elsewhere
            return state

    async def _change(self, seconds: float | None) -> bool:
        """Wait until something changed, or for so long; whether something has."""
        try:
            async with asyncio.timeout(seconds):
                return await self._changed.wait()
        except TimeoutError:
            return False

    async def _as_they_ended(self, job: JobRecord, known: list[Pod]) -> list[Pod]:
        """The pods of a job that has just finished: what is known of them may be older than what is known of it."""
        try:
            now = (await self.client.list(POD, self.namespace, labels=job.pod_labels)).items
        except (ApiError, TransportError):
            return known  # good enough, as a rule
        newest = {pod.metadata.uid: pod for pod in (*known, *now) if job.owns(pod)}
        return list(newest.values())

    async def _drain(self) -> None:
        """Wait for the last lines."""
        for log in self._logs.values():
            log.finish()
        if self._copies:
            await asyncio.wait(self._copies)

    def _observe(self, group: asyncio.TaskGroup, job: JobRecord, pods: list[Pod]) -> None:
        """Follow every container that has started, and tell those that are followed how they are."""
        for pod in pods:
            rank = job.rank(pod)
            self.observe(pod, rank)
            for status in statuses(pod) if self._shows(rank) else ():
                key = pod.metadata.uid, status.name
                if key in self._logs:
                    self._logs[key].observe(status)
                elif has_log(status):
                    self._logs[key] = log = self._log(pod, status, job.title(rank))
                    self._copies.append(group.create_task(log.copy(), name=f"logs-{key_of(pod)}"))

    def _shows(self, rank: str) -> bool:
        """Whether the output of this worker is wanted."""
        return self.show is not None and self.excerpt.has(rank)

    def _log_of(self, job: JobRecord, attempt: Attempt) -> ContainerLog:
        pod = Pod(metadata=ObjectMeta(name=attempt.pod, namespace=self.namespace))
        return self._log(pod, ContainerStatus(name=attempt.container), job.title(attempt.rank))

    def _log(self, pod: Pod, status: ContainerStatus, title: str) -> ContainerLog:
        assert self.show is not None
        show = partial(self.show, title)
        return ContainerLog(
            self.client, self.clock, pod, status, raw=self._raw, show=show, warn=self.warn, excerpt=self.excerpt
        )


def _unheard(job: JobRecord, excerpt: Excerpt) -> str:
    """Why there is no output of a job's workers, or of those that are asked for."""
    name = job.metadata.name
    whose = " of that rank" if len(excerpt.ranks) == 1 else " of those ranks" if excerpt.ranks else ""
    if job.end is not None:
        return f"{name}: there is no output{whose}: it was not started, or its pods are gone"
    return f"{name}: there is no output{whose} yet; muster why {name} says what it waits for"


def _ends_with_cluster(pods: Iterable[Pod]) -> bool:
    """Whether pods have ended with the cluster, and none is on a node any more."""
    found = list(pods)
    return any(map(ended_with_cluster, found)) and not any(is_active(pod) and pod.spec.node_name for pod in found)


@dataclass(frozen=True, slots=True)
class _Watched:
    """What there is now of the job that is followed: its object, and if that is a JobSet, its Jobs."""

    key: str
    jobs: Informer[Job]
    sets: Informer[JobSet] | None = None

    @classmethod
    def of(cls, follower: Follower, job: JobRecord) -> "_Watched":
        """Of a job that was found."""
        name = follower.name
        key, by_name = f"{follower.namespace}/{name}", f"metadata.name={name}"
        if job.kind == JOB:
            return cls(key, follower.informer(JOB, fields=by_name))
        jobs = follower.informer(JOB, labels=f"{JOBSET_NAME}={name}")
        return cls(key, jobs, follower.informer(JOB_SET, fields=by_name))

    @property
    def informers(self) -> list[Informer[Any]]:
        """What has to run."""
        return [self.jobs] if self.sets is None else [self.sets, self.jobs]

    def now(self) -> JobRecord | None:
        """The job; None if it is not there."""
        found = self.jobs.get(self.key) if self.sets is None else self.sets.get(self.key)
        return record_of(found, self.jobs.all()) if found is not None else None


class _Kept(msgspec.Struct, frozen=True):
    """What a Job's `log` says."""

    items: list[KeptPod]


class _QuietInformer(Informer[T]):
    """Leaves it to the follower to say, once, that the server does not answer.

    Who may list and not watch is told what comes of listing again.
    """

    def _report(self, error: ApiError | TransportError) -> None:
        if isinstance(error, ApiError):
            super()._report(error)
