"""Follow a job: show its workers' output, report what the job waits for, and return how it ended."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

from muster.actions.following.containerlog import ContainerLog, has_log
from muster.actions.following.elsewhere import OutOfReachError, Reach, cluster_of, copy_of
from muster.actions.following.excerpt import WHOLE, Excerpt
from muster.actions.following.printout import Printout, ShowOutput
from muster.actions.following.queuewatch import POSITION_SECONDS, QueueWatch, has_workloads
from muster.actions.following.selfwait import explain_own_wait, find_only_holder
from muster.actions.following.silence import Silence, explain_giving_up
from muster.actions.jobs.lookup import get_job
from muster.api.batch import JOB, Job
from muster.api.core import POD, Pod
from muster.api.jobset import JOB_SET, JobSet
from muster.api.jobset.names import JOBSET_NAME
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.ours.embedded import SERVER_MARK
from muster.api.pods import ended_with_cluster, is_active
from muster.api.status import ApiError
from muster.insight.jobs.attempts import choose_attempts
from muster.insight.jobs.failures import describe_absent
from muster.insight.jobs.state import Ending, JobState, find_ending, find_job_state
from muster.insight.jobs.tally import WorkerCounts, count_workers
from muster.insight.quota.state import QuotaState
from muster.insight.reader.engine import is_embedded
from muster.insight.reader.history.recorded import recall_job
from muster.insight.reader.jobs.pods import read_own_pods
from muster.insight.reader.quota.workloads import labels_of
from muster.insight.record import JobRecord, container_statuses, record_of
from muster.jobs.interruption import ENDED_WITH_CLUSTER
from muster.runtime.client import Client, error_of
from muster.runtime.ids import Random
from muster.runtime.informer import Informer
from muster.runtime.objects import key_of
from muster.runtime.realclock import Clock
from muster.runtime.refusals import ignoring, is_refusal
from muster.runtime.transport import Request, TransportError

if TYPE_CHECKING:
    from muster.insight.forecasts.never import VisibleCapacity

T = TypeVar("T")


# The seconds between two probes of the server, and the timeout of a probe in seconds.
PROBE_SECONDS = 2.0
PROBE_TIMEOUT_SECONDS = 10.0

# The seconds between two reads of a sweep's pods, per pod of the sweep.
SECONDS_PER_TRIAL = 0.0001

DELETED = Ending(1, "it was deleted")
"""How a job ends that is deleted while it is followed."""


class Follower(Struct):
    """A follower of one job's state and output until the job ends.

    show: called with each piece of output, the title of its worker, and the stream; None to show no output.
    report: called with each new state of the job.
    count: called with each change of the workers' progress.
    warn: called with a sentence about missing output, about a server that does not respond, or about a program that
    waits for the quota of its own job.
    reach: opens clients for worker clusters that run the job; None to show no output from worker clusters.
    inside: the name of the job in which this program runs; "" outside of jobs.
    """

    client: Client
    clock: Clock
    random: Random
    namespace: str
    name: str
    show: ShowOutput | None = None
    report: Callable[[JobState], None] = lambda _: None
    count: Callable[[WorkerCounts], None] = lambda _: None
    warn: Callable[[str], None] = lambda _: None
    excerpt: Excerpt = WHOLE  # the output to show
    observe: Callable[[Pod, str], None] = lambda _pod, _rank: None  # called with each new state of a pod, and its rank
    reach: Reach | None = None
    inside: str = ""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _logs: dict[tuple[str, str], ContainerLog] = field(default_factory=dict)  # by pod and container
    _room: "tuple[str, VisibleCapacity] | None" = (
        None  # the reason why the job waits, and the nodes and quotas when it started to wait for that reason
    )
    _copies: list[asyncio.Task[None]] = field(default_factory=list)
    _raw: bool = False  # whether the server is Muster's own, which returns logs unchanged
    _stopping: bool = False  # whether the job's pods ended because the cluster is stopping
    _there: dict[str, asyncio.Task[None]] = field(default_factory=dict)  # the followers in worker clusters
    _known_there: set[str] = field(
        default_factory=set
    )  # the UIDs of the followed copies, and the clusters that cannot be reached
    _ended_there: Ending | None = None

    async def run(self, job: JobRecord | None = None) -> Ending:
        """Follow the job to its end, and its output to the last line; return how the job ended.

        job: the job's record, if the caller has read it.

        Raises `ApiError` (NotFound; Unauthorized; output that the user may not read), and `TransportError` if the
        server stays unreachable.
        """
        job = job or await get_job(self.client, self.name, self.namespace)
        self._raw = self.show is not None and await is_embedded(self.client)
        watched = _Watched.of(self, job)
        pods = self.informer(POD, labels=job.pod_selector)
        queue = await self._make_queue_watch(job.metadata.uid)
        informers: list[Informer[Any]] = [*watched.informers, pods, *([queue.workloads] if queue is not None else [])]
        for informer in informers:
            informer.on_change(lambda _old, _new: self._changed.set())
        try:
            async with asyncio.TaskGroup() as group:
                works = [*(informer.run() for informer in informers), self._probe_server()]
                helpers = [group.create_task(work) for work in works]
                try:
                    for informer in informers:
                        await informer.synced.wait()
                    return await self._follow_until_finished(group, job, watched, pods, queue)
                finally:
                    for task in (*helpers, *self._copies):
                        task.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    def informer(self, kind: Kind[T], *, labels: str = "", fields: str = "") -> "Informer[T]":
        """Return an informer for a kind in the job's namespace. The informer does not report transport errors."""
        return _QuietInformer(
            self.client, kind, self.clock, self.random, namespace=self.namespace, labels=labels, fields=fields
        )

    async def _follow_there(self, job: JobRecord, cluster: str) -> None:
        """Show the job's output in a worker cluster until the job ends there, and record how it ended.

        If the cluster cannot be reached, the user is warned.
        """
        assert self.reach is not None
        try:
            async with self.reach(cluster) as client:
                copy = await copy_of(self.client, client, job)
                if copy.metadata.uid in self._known_there:
                    return
                self._known_there.add(copy.metadata.uid)
                ending = await self._make_follower_there(client).run(copy)
                self._ended_there = ending if ending != DELETED else None
        except OutOfReachError as error:
            self._known_there.add(cluster)
            self.warn(f"{self.name}: {error}")
        except (ApiError, TransportError) as error:
            if not is_refusal(error, "NotFound"):  # the copy does not exist yet, or is deleted already
                self.warn(f"{self.name}: its output in cluster {cluster} is not shown: {error}")

    def _make_follower_there(self, client: Client) -> "Follower":
        """Return a follower that shows the output of the job's copy in a worker cluster."""
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

    def _follow_elsewhere(self, group: asyncio.TaskGroup, job: JobRecord, cluster: str) -> None:
        """Start to follow the job in its worker cluster, unless that has been started already or is impossible."""
        before = self._there.get(cluster)
        can_follow = self.show is not None and self.reach is not None and cluster and cluster not in self._known_there
        if can_follow and (before is None or before.done()):
            self._there[cluster] = task = group.create_task(self._follow_there(job, cluster), name=f"in-{cluster}")
            self._copies.append(task)

    async def _print_gone(self, job: JobRecord, pods: list[Pod], *, from_start: bool) -> None:
        """Show the stored logs of pods that were deleted before all of their output was shown.

        from_start: whether to show all attempts of a worker, rather than only its last attempt.

        An error becomes a warning. Does nothing if no output is requested, or if the server is not Muster's own.
        """
        printout = self._make_printout()
        if printout is None or not self._raw:
            return
        try:
            attempts = await printout.list_attempts(job, pods, raw=True)
            if not from_start:
                attempts = choose_attempts(attempts, None, previous=False)
            followed = {key for key, log in self._logs.items() if not log.is_cut}
            for attempt in attempts:
                key = attempt.uid, attempt.container
                if attempt.gone and key not in followed:
                    log = self._logs.setdefault(key, printout.make_log_of_attempt(job, attempt, raw=True))
                    with ignoring("NotFound"):  # the node has deleted this log, but may keep later ones
                        await log.copy_once(attempt.path, attempt.query)
        except (ApiError, TransportError) as error:
            if not is_refusal(error, "NotFound"):  # the job was deleted together with all its logs
                self.warn(f"the output of deleted workers of {self.name} is not shown: {error}")

    async def _probe_server(self) -> None:
        """Probe the server periodically, and warn while it does not respond; never return.

        Raises `TransportError` when the cluster has stopped or has not responded for a long time, and `ApiError` when
        the credentials have become invalid.
        """
        probe = Request("GET", "/version", timeout_seconds=PROBE_TIMEOUT_SECONDS)
        silence, is_ours = Silence.since(self.clock.monotonic()), False
        while True:
            try:
                answer = await self.client.transport.request(probe)
                is_ours = SERVER_MARK.encode() in answer.body
                silence = Silence.since(self.clock.monotonic())
                if answer.status == 401:
                    raise error_of(answer, probe.method, probe.path)
            except TransportError as error:
                if self._stopping:
                    advice = f"the job continues at the next muster up: muster logs -f {self.name}"
                    raise TransportError(f"the cluster was stopped; {advice}") from error
                before, silence = silence, silence.after(error, self.clock.monotonic())
                if silence.is_over:
                    raise TransportError(explain_giving_up(self.name, error, ours=is_ours)) from error
                if silence.limit > before.limit:
                    self.warn(f"{self.name}: the server does not answer; trying for {silence.limit:g} s: {error}")
            await self.clock.sleep(PROBE_SECONDS)

    async def _make_queue_watch(self, job_uid: str) -> QueueWatch | None:
        """Return a watch on the job's Workload; None if the user may not list Workloads."""
        if not await has_workloads(self.client, self.namespace, job_uid):
            return None
        return QueueWatch(self.client, self.clock, self.informer(WORKLOAD, labels=labels_of(job_uid)), job_uid)

    async def _follow_until_finished(
        self,
        group: asyncio.TaskGroup,
        first: JobRecord,
        watched: "_Watched",
        pods: Informer[Pod],
        queue: QueueWatch | None,
    ) -> Ending:
        """Report each change of the job until the job has finished, and copy its workers' output; return how it ended.

        first: the job as it was when the follower began.
        queue: follows the job's Workload; None on a cluster without queues.
        """
        last: JobState | None = None
        counted: WorkerCounts | None = None
        uid, late, quiet, interruptions = first.metadata.uid, "", False, first.interruptions
        from_start = not (first.restarts or first.job_restarts or first.interruptions or first.failed)
        earlier = {pod.metadata.uid for pod in pods.all() if ended_with_cluster(pod)}
        while True:
            self._changed.clear()
            job = watched.now()
            if job is None or job.metadata.uid != uid:
                await self._drain()
                return DELETED
            mine = [pod for pod in pods.all() if job.owns(pod)]
            if first.end is not None:
                job = await recall_job(self.client, job, mine)
            self._observe(group, job, mine)
            was_stopped = job.interruptions > interruptions and job.last_interruption.endswith(ENDED_WITH_CLUSTER)
            stopped = self._stopping or was_stopped
            self._stopping = _ends_with_cluster(
                (pod for pod in mine if pod.metadata.uid not in earlier), stopped=stopped
            )
            quota_state = await queue.quota_state() if queue is not None else None
            self._follow_elsewhere(group, job, quota_state.cluster if quota_state is not None else "")
            if interruptions < job.interruptions and not self._stopping:
                self.warn(f"{self.name} was interrupted: {job.last_interruption}")
            interruptions = job.interruptions
            state = find_job_state(job, mine, quota_state)
            if state.finished:  # the informer of the pods may lag behind the job's informer
                mine = await self._list_final_pods(job, mine)
                state = find_job_state(job, mine, quota_state)
            state = await self._add_verdict(job, state)
            if quiet and state.outside:  # a queue usually admits a job immediately
                state = await self._add_refusal(uid, state)
            late = describe_absent(job, mine) or late
            if state != last and not self._stopping:
                self.report(state)
                last = state
            if job.array is None and (now := count_workers(job, mine)) != counted:
                self.count(now)
                counted = now
            if state.finished:
                self._observe(group, job, mine)
                await self._drain()
                await self._print_gone(job, mine, from_start=from_start)
                return await self._find_ending(job, find_ending(job, mine, late))
            if quiet and self.inside and quota_state is not None and quota_state.lacks_quota:
                await self._warn_of_own_wait(quota_state)
            waits = state.outside or (quota_state is not None and quota_state.waits)
            if job.array is not None:  # trials change often, and each change makes the follower read all of them
                await self.clock.sleep(len(mine) * SECONDS_PER_TRIAL)
            quiet = not await self._wait_for_change(POSITION_SECONDS if waits else None)

    async def _find_ending(self, job: JobRecord, here: Ending) -> Ending:
        """Return the ending of the job; for a job that failed in a worker cluster, the ending in that cluster if known.

        here: the ending that the manager cluster shows.
        """
        there = self._ended_there
        if here.code and there is None and job.remote_counts is not None:
            there = await self._find_ending_there(job)
        return there if here.code and there is not None and there.code else here

    async def _find_ending_there(self, job: JobRecord) -> Ending | None:
        """Return the ending of the job that its worker cluster reports.

        Returns None if the job has no worker cluster, or if the cluster cannot be reached.
        """
        cluster = await cluster_of(self.client, job)
        if not cluster or self.reach is None:
            return None
        try:
            async with self.reach(cluster) as client:
                copy = await copy_of(self.client, client, job)
                mine = await read_own_pods(client, copy)
                return find_ending(await recall_job(client, copy, mine), mine)
        except (ApiError, OutOfReachError, TransportError):
            return None

    async def _add_verdict(self, job: JobRecord, state: JobState) -> JobState:
        """Return the state of a waiting job, with the reason why it can never start, if there is such a reason.

        The nodes and quotas are read again whenever the job waits for a different reason. After an error the state is
        returned unchanged.
        """
        if not state.stuck:
            return state
        if self._room is None or self._room[0] != state.reason:
            from muster.insight.reader.forecasts.room import survey_room
            from muster.insight.reader.listing.lists import Lists

            try:
                self._room = state.reason, await survey_room(Lists(self.client), self.namespace)
            except (ApiError, TransportError):
                return state
        from muster.insight.forecasts.never import with_verdict  # importing it is slow

        return with_verdict(job, state, self._room[1])

    async def _add_refusal(self, uid: str, state: JobState) -> JobState:
        """Return the state with the reason why the queue does not accept the job, if there is one.

        The state is returned unchanged if the server does not respond.
        """
        from muster.insight.reader.jobs.rows import explain_missing_workloads

        try:
            return state.with_refusal((await explain_missing_workloads(self.client, self.namespace)).get(uid, ""))
        except TransportError:  # `_probe_server` probes the server
            return state

    async def _warn_of_own_wait(self, waiting: QuotaState) -> None:
        """Warn the user once if the followed job waits for quota that only the job running this program holds."""
        try:
            queue = await find_only_holder(self.client, self.namespace, self.inside, waiting)
        except TransportError:  # `_probe_server` probes the server
            return
        except ApiError as error:
            if error.code == 404:  # the program runs in a job of another cluster or namespace
                self.inside = ""
            return
        if queue:
            self.warn(explain_own_wait(self.name, self.inside, queue))
            self.inside = ""

    async def _wait_for_change(self, seconds: float | None) -> bool:
        """Wait up to `seconds` (None: forever) for a change of the watched objects; return whether one occurred."""
        try:
            async with asyncio.timeout(seconds):
                return await self._changed.wait()
        except TimeoutError:
            return False

    async def _list_final_pods(self, job: JobRecord, known: list[Pod]) -> list[Pod]:
        """Return the current pods of a job that has just finished; they may be newer than the `known` pods.

        Returns the known pods if the server refuses the request or does not respond.
        """
        try:
            current = await read_own_pods(self.client, job)
        except (ApiError, TransportError):
            return known  # the known states usually suffice
        newest = {pod.metadata.uid: pod for pod in (*known, *current) if job.owns(pod)}
        return list(newest.values())

    async def _drain(self) -> None:
        """Tell all followed logs that no attempt follows, and wait until their last lines have been shown."""
        for log in self._logs.values():
            log.finish()
        if self._copies:
            await asyncio.wait(self._copies)

    def _observe(self, group: asyncio.TaskGroup, job: JobRecord, pods: list[Pod]) -> None:
        """Start to follow each container that has started; pass new statuses to the logs that are already followed."""
        printout = self._make_printout()
        for pod in pods:
            rank = job.rank(pod)
            self.observe(pod, rank)
            if printout is None or not self.excerpt.has(rank):
                continue
            for status in container_statuses(pod):
                key = pod.metadata.uid, status.name
                if key in self._logs:
                    self._logs[key].observe(status)
                elif has_log(status):
                    title = job.title_of(rank)
                    self._logs[key] = log = printout.make_log(pod, status, title, raw=self._raw)
                    self._copies.append(group.create_task(log.copy(), name=f"logs-{key_of(pod)}"))

    def _make_printout(self) -> Printout | None:
        """Return the printer of the job's stored output; None if no output is requested."""
        if self.show is None:
            return None
        return Printout(self.client, self.clock, self.namespace, self.name, self.show, self.warn, self.excerpt)


def _ends_with_cluster(pods: Iterable[Pod], *, stopped: bool) -> bool:
    """Return whether a stopping cluster ended the job's pods, and no pod of the job is on a node now.

    stopped: whether an earlier call found pods that the cluster ended. The job's controller may have replaced those
    pods since then with new ones that wait for a node.
    """
    all_pods = list(pods)
    ended = stopped or any(map(ended_with_cluster, all_pods))
    return ended and not any(is_active(pod) and pod.spec.node_name for pod in all_pods)


class _Watched(Struct, frozen=True):
    """The informers for the followed job: for its object and, for a JobSet, for its Jobs."""

    key: str
    jobs: Informer[Job]
    sets: Informer[JobSet] | None = None

    @classmethod
    def of(cls, follower: Follower, job: JobRecord) -> "_Watched":
        """Return the informers for a job and, for a JobSet, for its Jobs. The caller starts them."""
        name = follower.name
        key, by_name = f"{follower.namespace}/{name}", f"metadata.name={name}"
        if job.kind == JOB:
            return cls(key, follower.informer(JOB, fields=by_name))
        jobs = follower.informer(JOB, labels=f"{JOBSET_NAME}={name}")
        return cls(key, jobs, follower.informer(JOB_SET, fields=by_name))

    @property
    def informers(self) -> list[Informer[Any]]:
        """The informers that the caller has to run."""
        return [self.jobs] if self.sets is None else [self.sets, self.jobs]

    def now(self) -> JobRecord | None:
        """Return the current record of the job; None if the job does not exist."""
        source = self.jobs.get(self.key) if self.sets is None else self.sets.get(self.key)
        return record_of(source, self.jobs.all()) if source is not None else None


class _QuietInformer(Informer[T]):
    """An informer that does not report an unreachable server or invalid credentials, because the follower does.

    If the user may list but not watch the kind, it reports the refusal once, and lists the kind repeatedly.
    """

    def _report(self, error: ApiError | TransportError) -> None:
        if isinstance(error, ApiError) and error.code != 401:
            super()._report(error)
