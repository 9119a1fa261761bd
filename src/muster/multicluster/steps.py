"""The steps that a plan takes in one worker cluster for one workload, and what is remembered of them.

A step may be repeated, and cut. What is remembered spares requests, or time, but for one thing that safety rests on:
until when a job that was asked for and not answered may still be made.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import MULTI_KUEUE_ORIGIN_UID
from muster.api.managed.dispatch import Refusal, home_of
from muster.api.managed.jobs import prebuilt_name
from muster.api.status import ApiError
from muster.multicluster.connection import RemoteCluster
from muster.multicluster.dispatch.clone import grows
from muster.multicluster.dispatched import Dispatched
from muster.multicluster.errands import together
from muster.multicluster.metrics import DispatchMetrics
from muster.multicluster.removal import remove_job
from muster.multicluster.words import one_line
from muster.multicluster.worker import BarredError, Worker
from muster.queueing.elastic.growth import afforded
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.controller import Result
from muster.runtime.objects import meta_of
from muster.runtime.transport import TransportError

# While what was removed is still going; while a job's status is put off (upstream's).
GOING_SECONDS, DEFERRED_SECONDS = 5.0, 2.0
# A job of another maker that is in the way is looked for again.
BARRED_FOR = timedelta(seconds=60)
# What was made in a worker is seen there after so long, or it is made again.
SEEN_SECONDS = 5.0
# What a server was asked and has not answered it may still do for so long (Kubernetes' `--request-timeout`).
UNANSWERED = timedelta(seconds=60)
# Refusals that pass: of who asks, of what is not there yet or has changed, of how much is asked at once.
PASSING = frozenset((401, 403, 404, 408, 409, 429))


@dataclass(slots=True)
class _Memory:
    """Of one workload.

    settled: from when on no job can be made of it unseen. made: when, by cluster, kind and name.
    barred: by cluster, when to look again. unshown: by name, the version of the copy whose status is refused here.
    """

    settled: datetime
    made: dict[tuple[str, str, str], datetime] = field(default_factory=dict)
    barred: dict[str, datetime] = field(default_factory=dict)
    unshown: dict[str, str] = field(default_factory=dict)


class Steps:
    """Those of all workloads."""

    def __init__(self, here: Client, clock: Clock, origin: str, metrics: DispatchMetrics) -> None:
        self._client, self._clock, self._origin, self._metrics = here, clock, origin, metrics
        self._began = clock.now()
        self._memories: dict[str, _Memory] = {}

    def worker(self, there: RemoteCluster) -> Worker:
        """What can be done in a cluster."""
        return Worker(there, self._client, self._clock, self._origin)

    def forget(self, key: str) -> None:
        """There is no such workload any more."""
        self._memories.pop(key, None)

    def barred(self, key: str) -> Collection[str]:
        """The clusters where something of another maker is in its way."""
        found = self._memories.get(key)
        return found.barred if found is not None else ()

    def is_unshown(self, one: Dispatched, copy: Any) -> bool:
        """Whether the status of a copy cannot be shown here."""
        found, meta = self._memories.get(one.key), meta_of(copy)
        return found is not None and found.unshown.get(meta.name) == meta.resource_version

    def unsettled_seconds(self, one: Dispatched) -> float:
        """For how long a job of it may still be made unseen, at its home or at one that it had before."""
        return (self._of(one).settled - self._clock.now()).total_seconds()

    def _of(self, one: Dispatched) -> _Memory:
        found = self._memories.get(one.key)
        if found is None:  # what was asked before this process began is not known
            meta = one.workload.metadata
            is_new = (
                not home_of(meta) and meta.creation_timestamp is not None and meta.creation_timestamp >= self._began
            )
            found = self._memories[one.key] = _Memory(self._began if is_new else self._began + UNANSWERED)
        return found

    async def create(self, worker: Worker, one: Dispatched) -> Result:
        """A clone, which may try to get quota."""
        what = (worker.there.name, WORKLOAD.kind, one.workload.metadata.name)

        async def make() -> bool:
            made = await worker.create(one)
            if made:
                self._metrics.dispatched(one.cluster_queue, worker.there.name)
            return made

        return await self._make(worker, one, what, make)

    async def align(self, worker: Worker, one: Dispatched) -> Result:
        """Priority and sizes: the job first, its clone follows it there.

        Where the server lets no clone grow that has quota (Kueue's), the job would be stopped for it: so it is asked.
        """
        if (found := worker.there.workload(one.key)) is None:
            return None
        found = await worker.promote(one.workload, found)
        if grows(one.workload, found):
            await self._ask(worker, one.workload, found)
        copies, podsets = worker.seen(one).own, afforded(one.workload)
        for job in one.jobs:
            copy = copies.get(meta_of(job).name)
            if one.mirror is not None and copy is not None and (edits := one.mirror.resized(job, copy, podsets)):
                await worker.there.client.edit_object(one.mirror.kind, copy, edits)
        await worker.resize(one.workload, found)
        return None

    async def _ask(self, worker: Worker, workload: Workload, found: Workload) -> None:
        """Whether the clone may grow; that it may not is noted here, as no controller waits for such pods."""
        try:
            await worker.resize(workload, found, dry_run=True)
        except ApiError as error:
            if is_for_good(error) or error.code == 403:  # so says a webhook, such as Kueue's
                noted = {"metadata": {"annotations": Refusal.of(workload, one_line(str(error))).written()}}
                await self._client.patch_object(WORKLOAD, workload, noted, lock=False)
            raise

    async def evict(self, worker: Worker, one: Dispatched) -> Result:
        """The clone has to stop."""
        if (found := worker.there.workload(one.key)) is not None:
            await worker.evict(found)
        return None

    async def remove(self, worker: Worker, one: Dispatched) -> Result:
        """Nothing of it stays there."""
        memory = self._of(one)
        memory.made = {what: when for what, when in memory.made.items() if what[0] != worker.there.name}
        return None if await worker.remove(one) else GOING_SECONDS

    async def mirror(self, worker: Worker, one: Dispatched) -> Result:
        """Its jobs are made there, and what becomes of them is shown here; what was made for others goes."""
        copies, mirror = worker.seen(one), one.mirror
        if mirror is None:
            return None
        steps: list[Awaitable[Result]] = []
        starting: list[Any] = []
        for job in one.jobs:
            copy = copies.own.pop(meta_of(job).name, None)
            if copy is not None and meta_of(job).deletion_timestamp is not None:
                steps.append(remove_job(worker.there.client, mirror.kind, copy))
            elif copy is not None:
                steps.append(self._show(one, job, copy, mirror.status(job, copy)))
            elif meta_of(job).deletion_timestamp is None and not mirror.has_ended(job):
                starting.append(job)
        steps.append(self._start_all(worker, one, starting))
        others = [*((mirror.kind, copy) for copy in copies.own.values()), *copies.strays]
        steps += (self._leave(worker, one, kind, copy) for kind, copy in others)
        return await together(steps)

    async def _start_all(self, worker: Worker, one: Dispatched, jobs: Iterable[Any]) -> Result:
        """The PodGroups that are named come before the pods."""
        assert one.mirror is not None
        where, kind = worker.there.name, one.mirror.kind.kind
        new = [job for job in jobs if not self._was_made(one, (where, kind, meta_of(job).name))]
        try:
            for group in one.groups(new):
                await worker.accompany(one, group)
        except BarredError:
            return self._bar(worker, one)
        return await together(self._start(worker, one, job) for job in jobs)

    async def _show(self, one: Dispatched, job: Any, copy: Any, patch: dict[str, Any] | None) -> Result:
        """What the server here would never take, whatever a worker says, holds up no end."""
        if patch is None:
            return DEFERRED_SECONDS
        try:
            await self.write_status(one, job, patch)
        except ApiError as error:
            if is_for_good(error):
                self._of(one).unshown[meta_of(copy).name] = meta_of(copy).resource_version
            raise
        return None

    async def _start(self, worker: Worker, one: Dispatched, job: Any) -> Result:
        assert one.mirror is not None
        what = (worker.there.name, one.mirror.kind.kind, meta_of(job).name)
        try:
            return await self._make(worker, one, what, partial(worker.start, one, job))
        except (ApiError, TransportError) as error:
            if not isinstance(error, ApiError) or error.code >= 500:
                self._of(one).settled = self._clock.now() + UNANSWERED
            raise

    def _bar(self, worker: Worker, one: Dispatched) -> Result:
        self._of(one).barred[worker.there.name] = self._clock.now() + BARRED_FOR
        return 0.0

    async def is_barred(self, worker: Worker, one: Dispatched) -> Result:
        """Whether what is in its way still is: that is asked from time to time."""
        bars, cluster = self._of(one).barred, worker.there.name
        if bars[cluster] <= self._clock.now():
            if not await worker.is_barred(one):
                del bars[cluster]
                return 0.0
            self._bar(worker, one)
        return (bars[cluster] - self._clock.now()).total_seconds()

    async def _make(
        self, worker: Worker, one: Dispatched, what: tuple[str, str, str], make: Callable[[], Awaitable[bool]]
    ) -> Result:
        """Make something in a worker, unless it was made a moment ago and is not seen there yet."""
        now = self._clock.now()
        try:
            if not self._was_made(one, what) and await make():
                self._of(one).made[what] = now
        except BarredError:
            return self._bar(worker, one)
        return SEEN_SECONDS

    def _was_made(self, one: Dispatched, what: tuple[str, str, str]) -> bool:
        before = self._of(one).made.get(what)
        return before is not None and (self._clock.now() - before).total_seconds() < SEEN_SECONDS

    async def _leave(self, worker: Worker, one: Dispatched, kind: Kind[Any], copy: Any) -> Result:
        """What was made for a job that is no more here goes; the server is asked, for our copy of that may be old."""
        meta = meta_of(copy)
        here = await self._client.find(kind, meta.name, meta.namespace)
        uid = meta_of(here).uid if here is not None else None
        is_here = meta.annotations.get(MULTI_KUEUE_ORIGIN_UID, uid) == uid is not None
        if not is_here or prebuilt_name(meta) != one.workload.metadata.name:
            await remove_job(worker.there.client, kind, copy)
        return None

    async def write_status(self, one: Dispatched, job: Any, patch: dict[str, Any]) -> None:
        """Of a job here."""
        if patch and one.mirror is not None:
            await self._client.patch_object(one.mirror.kind, job, {"status": patch}, subresource="status")


def is_for_good(error: ApiError) -> bool:
    """Whether the same write is refused again, however often it is tried."""
    return 400 <= error.code < 500 and error.code not in PASSING
