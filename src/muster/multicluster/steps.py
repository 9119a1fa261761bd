"""Execute the steps of a plan in one worker cluster for one workload, and remember facts between the steps.

A step may be repeated, and may be cancelled at any await. Most remembered facts only save requests or time. One fact is
needed for safety: until when a creation request without a response may still create a job in a worker.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from msgspec import Struct, field

from muster.api.conditions import is_true
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import FINISHED, MULTI_KUEUE_ORIGIN_UID
from muster.api.managed.dispatch import Refusal, home_of
from muster.api.managed.jobs import prebuilt_name
from muster.api.status import ApiError
from muster.multicluster.dispatch.clone import needs_growth
from muster.multicluster.dispatched import Dispatched, is_group
from muster.multicluster.errands import await_all_steps
from muster.multicluster.links.connection import RemoteCluster
from muster.multicluster.links.sanitizing import one_line
from muster.multicluster.metrics import DispatchMetrics
from muster.multicluster.removal import remove_job
from muster.multicluster.worker import BarredError, Worker
from muster.queueing.elastic.growth import list_granted_podsets
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.control.controller import Result
from muster.runtime.objects import NO_REVISION, Revision, meta_of, revision_of
from muster.runtime.transport import TransportError

GOING_SECONDS = 5.0  # until the step checks again whether a removed object is gone
DEFERRED_SECONDS = 2.0  # until a status is written that upstream would not write yet
# After this time the step checks again whether a foreign job still has the name that a copy needs.
BARRED_FOR = timedelta(seconds=60)
# A created object in a worker is observed within this time, or it is created again.
SEEN_SECONDS = 5.0
# A server may still carry out an unanswered request within this time (Kubernetes' `--request-timeout`).
UNANSWERED = timedelta(seconds=60)
# Statuses of refusals that a retry may overcome: missing rights, a missing or changed object, too many requests.
PASSING = frozenset((401, 403, 404, 408, 409, 429))


class _Memory(Struct):
    """The facts remembered about one workload.

    settled: after this time no pending request can create a job of the workload any more.
    made: when each object was created, by cluster, kind and name.
    barred: when to check again whether a foreign object has a copy's name, by cluster.
    unshown: the resource version of each copy whose status the manager's server refuses, by the job's name.
    last: by the name of a job, the revision of its copy that was read after the clone had finished; `NO_REVISION` if
    there was none.
    ended_since: since when all jobs here show that they have finished; None if one does not.
    """

    settled: datetime
    made: dict[tuple[str, str, str], datetime] = field(default_factory=dict)
    barred: dict[str, datetime] = field(default_factory=dict)
    unshown: dict[str, str] = field(default_factory=dict)
    last: dict[str, Revision] = field(default_factory=dict)
    ended_since: datetime | None = None


class Steps:
    """The executor of steps, with its memory of all workloads."""

    def __init__(
        self,
        here: Client,
        clock: Clock,
        origin: str,
        metrics: DispatchMetrics,
        note_written: Callable[[Kind[Any], Any], None],
    ) -> None:
        """Make the steps.

        here: the client of the manager's server.
        note_written: called with each local job as stored with its new status.
        """
        self._client, self._clock, self._origin, self._metrics = here, clock, origin, metrics
        self._note_written = note_written
        self._began = clock.now()
        self._memories: dict[str, _Memory] = {}

    def worker(self, there: RemoteCluster) -> Worker:
        """Return the client for a cluster's requests."""
        return Worker(there, self._client, self._clock, self._origin)

    def forget(self, key: str) -> None:
        """Drop the facts about a deleted workload."""
        self._memories.pop(key, None)

    def list_barred(self, key: str) -> Collection[str]:
        """Return the clusters where a foreign object has the name of an object that this manager needs to create."""
        memory = self._memories.get(key)
        return memory.barred if memory is not None else ()

    def is_unshown(self, dispatched: Dispatched, copy: Any) -> bool:
        """Return whether the manager's server has refused the status of this version of a copy."""
        memory, meta = self._memories.get(dispatched.key), meta_of(copy)
        return memory is not None and memory.unshown.get(meta.name) == meta.resource_version

    def is_last(self, dispatched: Dispatched, copy: Any) -> bool:
        """Return whether a cached copy, whose clone has finished, may be in its final state.

        The clone and the copy arrive by separate watches, and the watch of copies may be behind.
        """
        if dispatched.mirror is None or dispatched.mirror.has_ended(copy):
            return True
        memory, name = self._memories.get(dispatched.key), meta_of(copy).name
        if memory is None:
            return False
        return self.is_unshown(dispatched, copy) or (name in memory.last and memory.last[name] <= revision_of(copy))

    def was_read(self, dispatched: Dispatched, name: str) -> bool:
        """Return whether the final state of a copy was read from its server and shown, or the server had no copy."""
        memory = self._memories.get(dispatched.key)
        return memory is not None and name in memory.last

    def note_end(self, dispatched: Dispatched) -> datetime | None:
        """Return since when the local job shows that it has finished; None if it does not, or for a group of pods."""
        mirror, memory = dispatched.mirror, self._get_memory(dispatched)
        if (
            mirror is None
            or is_group(dispatched.workload.metadata)
            or not dispatched.jobs
            or not all(map(mirror.has_ended, dispatched.jobs))
        ):
            memory.ended_since = None
        elif memory.ended_since is None:
            memory.ended_since = self._clock.now()
        return memory.ended_since

    def unsettled_seconds(self, dispatched: Dispatched) -> float:
        """Return for how many seconds a pending request may still create a job of the workload in any worker."""
        return (self._get_memory(dispatched).settled - self._clock.now()).total_seconds()

    def _get_memory(self, dispatched: Dispatched) -> _Memory:
        memory = self._memories.get(dispatched.key)
        if memory is None:  # requests of an earlier process are not known
            meta = dispatched.workload.metadata
            is_new = (
                not home_of(meta) and meta.creation_timestamp is not None and meta.creation_timestamp >= self._began
            )
            memory = self._memories[dispatched.key] = _Memory(self._began if is_new else self._began + UNANSWERED)
        return memory

    async def create(self, worker: Worker, dispatched: Dispatched) -> Result:
        """Create the workload's clone in the worker; return the seconds to the next decision (None: no need)."""
        what = (worker.there.name, WORKLOAD.kind, dispatched.workload.metadata.name)

        async def make() -> bool:
            created = await worker.create(dispatched)
            if created:
                self._metrics.count_dispatch(dispatched.cluster_queue, worker.there.name)
            return created

        return await self._make_once(worker, dispatched, what, make)

    async def align(self, worker: Worker, dispatched: Dispatched) -> Result:
        """Give the copies in the worker the priority and the size of the local objects: the jobs first, then the clone.

        Kueue refuses to let a clone with quota grow, and would stop the job whose clone cannot follow. So the step
        first tries the growth as a dry run.
        """
        if (clone := worker.there.workload(dispatched.key)) is None:
            return None
        clone = await worker.promote(dispatched.workload, clone)
        if needs_growth(dispatched.workload, clone):
            await self._ask_for_growth(worker, dispatched.workload, clone)
        copies, podsets = worker.list_copies(dispatched).own, list_granted_podsets(dispatched.workload)
        for job in dispatched.jobs:
            copy = copies.get(meta_of(job).name)
            if (
                dispatched.mirror is not None
                and copy is not None
                and (edits := dispatched.mirror.make_resize_patch(job, copy, podsets))
            ):
                await worker.there.client.edit_object(dispatched.mirror.kind, copy, edits)
        await worker.resize(dispatched.workload, clone)
        return None

    async def _ask_for_growth(self, worker: Worker, workload: Workload, clone: Workload) -> None:
        """Try the growth of the clone as a dry run. If it is refused, record that on the workload and raise the error.

        The record tells other controllers not to wait for the additional pods.
        """
        try:
            await worker.resize(workload, clone, dry_run=True)
        except ApiError as error:
            if is_for_good(error) or error.code == 403:  # the status with which webhooks refuse, such as Kueue's
                noted = {"metadata": {"annotations": Refusal.of(workload, one_line(str(error))).make_annotation()}}
                await self._client.patch_object(WORKLOAD, workload, noted, lock=False)
            raise

    async def evict(self, worker: Worker, dispatched: Dispatched) -> Result:
        """Evict the workload in a worker cluster, by its clone there."""
        if (clone := worker.there.workload(dispatched.key)) is not None:
            await worker.evict(clone)
        return None

    async def remove(self, worker: Worker, dispatched: Dispatched) -> Result:
        """Remove all objects of the workload from the worker. Return None if all are gone, else the seconds to wait."""
        memory = self._get_memory(dispatched)
        memory.made = {what: when for what, when in memory.made.items() if what[0] != worker.there.name}
        memory.last.clear()
        return None if await worker.remove(dispatched) else GOING_SECONDS

    async def mirror(self, worker: Worker, dispatched: Dispatched) -> Result:
        """Create the workload's jobs in the worker, copy their status back, and remove the copies of other jobs.

        Return the seconds to the next decision.
        """
        copies, mirror = worker.list_copies(dispatched), dispatched.mirror
        if mirror is None:
            return None
        clone = worker.there.workload(dispatched.key)
        has_finished = clone is not None and is_true(clone.status.conditions, FINISHED)
        steps: list[Awaitable[Result]] = []
        starting: list[Any] = []
        for job in dispatched.jobs:
            copy = copies.own.pop(meta_of(job).name, None)
            if copy is not None and meta_of(job).deletion_timestamp is not None:
                steps.append(remove_job(worker.there.client, mirror.kind, copy))
            elif copy is not None and (not has_finished or self.is_last(dispatched, copy)):
                steps.append(self._show_status(dispatched, job, copy, mirror.status(job, copy)))
            elif meta_of(job).deletion_timestamp is None and not mirror.has_ended(job):
                if has_finished:
                    steps.append(self._show_end(worker, dispatched, job))
                else:
                    starting.append(job)
        if starting:
            steps.append(self._start_all(worker, dispatched, starting))
        others = [*((mirror.kind, copy) for copy in copies.own.values()), *copies.strays]
        steps += (self._remove_stale(worker, dispatched, kind, copy) for kind, copy in others)
        return await await_all_steps(steps)

    async def _start_all(self, worker: Worker, dispatched: Dispatched, jobs: Iterable[Any]) -> Result:
        """Create the PodGroups that the pods name, then the jobs; return the seconds to the next decision."""
        assert dispatched.mirror is not None
        where, kind = worker.there.name, dispatched.mirror.kind.kind
        new = [job for job in jobs if not self._was_made(dispatched, (where, kind, meta_of(job).name))]
        try:
            for group in dispatched.groups(new):
                await worker.accompany(dispatched, group)
        except BarredError:
            return self._note_barred(worker, dispatched)
        return await await_all_steps(self._start_job(worker, dispatched, job) for job in jobs)

    async def _show_status(self, dispatched: Dispatched, job: Any, copy: Any, patch: dict[str, Any] | None) -> Result:
        """Write a copy's status on the local job; return the seconds to wait if the patch is None.

        If the local server refuses a status permanently, that is also remembered (`is_unshown`). Otherwise retries
        would keep the workload from ever finishing. Raises `ApiError` in any case.

        patch: the merge patch of the local job's status; None if it must not be written yet.
        """
        if patch is None:
            return DEFERRED_SECONDS
        try:
            await self.write_status(dispatched, job, patch)
        except ApiError as error:
            if is_for_good(error):
                self._get_memory(dispatched).unshown[meta_of(copy).name] = meta_of(copy).resource_version
            raise
        return None

    async def _show_end(self, worker: Worker, dispatched: Dispatched, job: Any) -> Result:
        """Show the status of a finished job, read from the worker's server.

        Return the seconds to the next decision; None if the status was read already.
        """
        name = meta_of(job).name
        if dispatched.mirror is None or self.was_read(dispatched, name):
            return None
        copy = await worker.find_copy(dispatched, name)
        after = (
            await self._show_status(dispatched, job, copy, dispatched.mirror.status(job, copy))
            if copy is not None
            else None
        )
        if after is not None:
            return after
        self._get_memory(dispatched).last[name] = revision_of(copy) if copy is not None else NO_REVISION
        return 0.0

    async def _start_job(self, worker: Worker, dispatched: Dispatched, job: Any) -> Result:
        assert dispatched.mirror is not None
        what = (worker.there.name, dispatched.mirror.kind.kind, meta_of(job).name)
        try:
            return await self._make_once(worker, dispatched, what, partial(worker.start, dispatched, job))
        except (ApiError, TransportError) as error:
            if not isinstance(error, ApiError) or error.code >= 500:
                self._get_memory(dispatched).settled = self._clock.now() + UNANSWERED
            raise

    def _note_barred(self, worker: Worker, dispatched: Dispatched) -> Result:
        self._get_memory(dispatched).barred[worker.there.name] = self._clock.now() + BARRED_FOR
        return 0.0

    async def recheck_barred(self, worker: Worker, dispatched: Dispatched) -> Result:
        """Check, at most every `BARRED_FOR`, whether a foreign object still has the name.

        Return the seconds until the next check.
        """
        bars, cluster = self._get_memory(dispatched).barred, worker.there.name
        if bars[cluster] <= self._clock.now():
            if not await worker.is_barred(dispatched):
                del bars[cluster]
                return 0.0
            self._note_barred(worker, dispatched)
        return (bars[cluster] - self._clock.now()).total_seconds()

    async def _make_once(
        self, worker: Worker, dispatched: Dispatched, key: tuple[str, str, str], make: Callable[[], Awaitable[bool]]
    ) -> Result:
        """Create an object in a worker, unless this process has just created it and no watch shows it yet.

        key: the cluster, kind and name.
        make: creates the object; returns whether this call created it.
        """
        now = self._clock.now()
        try:
            if not self._was_made(dispatched, key) and await make():
                self._get_memory(dispatched).made[key] = now
        except BarredError:
            return self._note_barred(worker, dispatched)
        return SEEN_SECONDS

    def _was_made(self, dispatched: Dispatched, key: tuple[str, str, str]) -> bool:
        before = self._get_memory(dispatched).made.get(key)
        return before is not None and (self._clock.now() - before).total_seconds() < SEEN_SECONDS

    async def _remove_stale(self, worker: Worker, dispatched: Dispatched, kind: Kind[Any], copy: Any) -> Result:
        """Remove the copy of a job that no longer exists or has another Workload.

        Ask the manager's server, because the cache may be stale.
        """
        meta = meta_of(copy)
        here = await self._client.find(kind, meta.name, meta.namespace)
        uid = meta_of(here).uid if here is not None else None
        is_here = meta.annotations.get(MULTI_KUEUE_ORIGIN_UID, uid) == uid is not None
        if not is_here or prebuilt_name(meta) != dispatched.workload.metadata.name:
            await remove_job(worker.there.client, kind, copy)
        return None

    async def write_status(self, dispatched: Dispatched, job: Any, patch: dict[str, Any]) -> None:
        """Merge the patch into the status of a local job and note the new job. Do nothing if the patch is empty."""
        if patch and dispatched.mirror is not None:
            kind = dispatched.mirror.kind
            written = await self._client.patch_object(kind, job, {"status": patch}, subresource="status")
            self._note_written(kind, written)


def is_for_good(error: ApiError) -> bool:
    """Return whether a server's error would recur if the same write were repeated."""
    return 400 <= error.code < 500 and error.code not in PASSING
