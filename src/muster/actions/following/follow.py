"""Follow a job: print its workers' output, report on stderr what the job waits for, and return how it ended."""

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


# The pause between probes of the server, and the time limit of a probe.
PROBE_SECONDS = 2.0
PROBE_TIMEOUT_SECONDS = 10.0

# The pause between two reads of a sweep, for each of its pods.
SECONDS_PER_TRIAL = 0.0001

DELETED = Ending(1, "it was deleted")
"""How a job ends that is deleted while it is followed."""


class Follower(Struct):
    """The follower of one job's state and output, until the job ends.

    show: called with all output, with the title of its worker and the stream.
    report: called with every new state.
    count: called with every change of the workers' progress.
    warn: called with remarks about missing output, about a server that does not answer, and about a program that waits
    for quota of its own job.
    reach: opens clients for worker clusters that run the job; without it, output from there is not shown.
    inside: the job in which this program runs; "" if it runs in none.
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
    excerpt: Excerpt = WHOLE  # which output is shown
    observe: Callable[[Pod, str], None] = lambda _pod, _rank: None  # called with each state of a pod, and its rank
    reach: Reach | None = None
    inside: str = ""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _logs: dict[tuple[str, str], ContainerLog] = field(default_factory=dict)  # by pod and container
    _room: "tuple[str, VisibleCapacity] | None" = (
        None  # the reason for which the job waits, and the nodes and quotas when that began
    )
    _copies: list[asyncio.Task[None]] = field(default_factory=list)
    _raw: bool = False  # whether the server is Muster's own, which returns logs unchanged
    _stopping: bool = False  # whether the job's pods have ended because the cluster is stopping
    _there: dict[str, asyncio.Task[None]] = field(default_factory=dict)  # the followers in worker clusters
    _known_there: set[str] = field(
        default_factory=set
    )  # UIDs of the followed copies, and clusters that cannot be reached
    _ended_there: Ending | None = None

    async def run(self, job: JobRecord | None = None) -> Ending:
        """Follow the job to its end, and its output to the last line; return how it ended.

        job: its record, if the caller has read it. Raises `ApiError` (NotFound; Unauthorized; output that the user may
        not read), `TransportError` if the server does not come back.
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
                    return await self._until_finished(group, job, watched, pods, queue)
                finally:
                    for task in (*helpers, *self._copies):
                        task.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    def informer(self, kind: Kind[T], *, labels: str = "", fields: str = "") -> "Informer[T]":
        """Return an informer of a kind in the namespace that does not report transport errors."""
        return _QuietInformer(
            self.client, kind, self.clock, self.random, namespace=self.namespace, labels=labels, fields=fields
        )

    async def _follow_there(self, job: JobRecord, cluster: str) -> None:
        """Show the job's output in a worker cluster until it ends there, and note how it ended.

        Failures to reach the cluster become warnings.
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
            if not is_refusal(error, "NotFound"):  # the copy is not created yet, or deleted already
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
        """Start to follow the job in its worker cluster, unless it is already followed or cannot be."""
        before = self._there.get(cluster)
        can_follow = self.show is not None and self.reach is not None and cluster and cluster not in self._known_there
        if can_follow and (before is None or before.done()):
            self._there[cluster] = task = group.create_task(self._follow_there(job, cluster), name=f"in-{cluster}")
            self._copies.append(task)

    async def _print_gone(self, job: JobRecord, pods: list[Pod], *, from_start: bool) -> None:
        """Show the output that the node keeps of pods that were deleted before all of their output was shown.

        from_start: whether all attempts of a worker count, and not only its last one. An error becomes a warning. Do
        nothing if no output is shown, or the server is not Muster's.
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
                    with ignoring("NotFound"):  # the node keeps it no longer, but may keep later ones
                        await log.copy_once(attempt.path, attempt.query)
        except (ApiError, TransportError) as error:
            if not is_refusal(error, "NotFound"):  # the job was deleted with all its output
                self.warn(f"the output of deleted workers of {self.name} is not shown: {error}")

    async def _probe_server(self) -> None:
        """Probe the server every few seconds, and warn while it does not answer. The function never returns.

        Raises `TransportError` once the cluster was stopped, or after a long silence; `ApiError` once the credentials
        are invalid.
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
                    advice = f"the job goes on at the next muster up: muster logs -f {self.name}"
                    raise TransportError(f"the cluster was stopped; {advice}") from error
                before, silence = silence, silence.after(error, self.clock.monotonic())
                if silence.is_over:
                    raise TransportError(explain_giving_up(self.name, error, ours=is_ours)) from error
                if silence.limit > before.limit:
                    self.warn(f"{self.name}: the server does not answer; trying for {silence.limit:g} s: {error}")
            await self.clock.sleep(PROBE_SECONDS)

    async def _make_queue_watch(self, job_uid: str) -> QueueWatch | None:
        """Return the watch on the job's Workload; None if the user may not see Workloads."""
        if not await has_workloads(self.client, self.namespace, job_uid):
            return None
        return QueueWatch(self.client, self.clock, self.informer(WORKLOAD, labels=labels_of(job_uid)), job_uid)

    async def _until_finished(
        self,
        group: asyncio.TaskGroup,
        first: JobRecord,
        watched: "_Watched",
        pods: Informer[Pod],
        queue: QueueWatch | None,
    ) -> Ending:
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
            if state.finished:  # the watch of the pods may be behind that of the job
                mine = await self._list_final_pods(job, mine)
                state = find_job_state(job, mine, quota_state)
            state = await self._add_verdict(job, state)
            if quiet and state.outside:  # a queue usually accepts a job at once
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
            if job.array is not None:  # many trials change often, and each change reads all of them
                await self.clock.sleep(len(mine) * SECONDS_PER_TRIAL)
            quiet = not await self._wait_for_change(POSITION_SECONDS if waits else None)

    async def _find_ending(self, job: JobRecord, here: Ending) -> Ending:
        """Return the ending of the job; if it failed in a worker cluster that tells how, the ending from there.

        here: the ending as the manager's cluster shows it.
        """
        there = self._ended_there
        if here.code and there is None and job.remote_counts is not None:
            there = await self._find_ending_there(job)
        return there if here.code and there is not None and there.code else here

    async def _find_ending_there(self, job: JobRecord) -> Ending | None:
        """Return the ending that the worker cluster of a job reports.

        The result is None if the job has none, or it cannot be reached.
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
        """Return the state of a waiting job with the reason why it can never start, if it cannot.

        The nodes and quotas are read again when the job waits for another reason. Errors leave the state unchanged.
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
        from muster.insight.forecasts.never import with_verdict  # importing it takes long

        return with_verdict(job, state, self._room[1])

    async def _add_refusal(self, uid: str, state: JobState) -> JobState:
        """Return the state with the reason why the queue does not accept the job, if there is one.

        The state is unchanged if the server does not answer.
        """
        from muster.insight.reader.jobs.rows import explain_missing_workloads

        try:
            return state.with_refusal((await explain_missing_workloads(self.client, self.namespace)).get(uid, ""))
        except TransportError:  # `_probe_server` probes the server
            return state

    async def _warn_of_own_wait(self, waiting: QuotaState) -> None:
        """Warn, once, that only the job in which this program runs holds the quota for which the followed job waits."""
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
        """Wait for a change of the watched objects, for this many seconds at most; return whether there was one."""
        try:
            async with asyncio.timeout(seconds):
                return await self._changed.wait()
        except TimeoutError:
            return False

    async def _list_final_pods(self, job: JobRecord, known: list[Pod]) -> list[Pod]:
        """Return the current pods of a job that has just finished, which may be newer than the `known` ones.

        Return the known ones if the server refuses or does not answer.
        """
        try:
            current = await read_own_pods(self.client, job)
        except (ApiError, TransportError):
            return known  # the known states usually suffice
        newest = {pod.metadata.uid: pod for pod in (*known, *current) if job.owns(pod)}
        return list(newest.values())

    async def _drain(self) -> None:
        """End all logs that are followed, and wait until their last lines have been shown."""
        for log in self._logs.values():
            log.finish()
        if self._copies:
            await asyncio.wait(self._copies)

    def _observe(self, group: asyncio.TaskGroup, job: JobRecord, pods: list[Pod]) -> None:
        """Start to follow every container that has started, and pass new states to the logs that are followed."""
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
        """Return the printer of the job's output; None if no output is to be shown."""
        if self.show is None:
            return None
        return Printout(self.client, self.clock, self.namespace, self.name, self.show, self.warn, self.excerpt)


def _ends_with_cluster(pods: Iterable[Pod], *, stopped: bool) -> bool:
    """Return whether the cluster stopped and ended the job's pods, and no pod of the job is on a node now.

    stopped: whether an earlier call found pods that the cluster ended. They may be deleted since then, because the job
    replaces them at once by new pods, which wait for a node.
    """
    all_pods = list(pods)
    ended = stopped or any(map(ended_with_cluster, all_pods))
    return ended and not any(is_active(pod) and pod.spec.node_name for pod in all_pods)


class _Watched(Struct, frozen=True):
    """The informers of the followed job: of its object, and of the Jobs of a JobSet."""

    key: str
    jobs: Informer[Job]
    sets: Informer[JobSet] | None = None

    @classmethod
    def of(cls, follower: Follower, job: JobRecord) -> "_Watched":
        """Return the informers of a job: of its object and, for a JobSet, of its Jobs. They do not run yet."""
        name = follower.name
        key, by_name = f"{follower.namespace}/{name}", f"metadata.name={name}"
        if job.kind == JOB:
            return cls(key, follower.informer(JOB, fields=by_name))
        jobs = follower.informer(JOB, labels=f"{JOBSET_NAME}={name}")
        return cls(key, jobs, follower.informer(JOB_SET, fields=by_name))

    @property
    def informers(self) -> list[Informer[Any]]:
        """The informers that keep the job's objects up to date; the caller runs them."""
        return [self.jobs] if self.sets is None else [self.sets, self.jobs]

    def now(self) -> JobRecord | None:
        """Return the current record of the job; None if the job does not exist."""
        source = self.jobs.get(self.key) if self.sets is None else self.sets.get(self.key)
        return record_of(source, self.jobs.all()) if source is not None else None


class _QuietInformer(Informer[T]):
    """An informer that does not report an unreachable server or invalid credentials, because the follower does.

    A user who may list but not watch learns of errors from the next list.
    """

    def _report(self, error: ApiError | TransportError) -> None:
        if isinstance(error, ApiError) and error.code != 401:
            super()._report(error)
