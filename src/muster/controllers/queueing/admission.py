"""The shell of the admission cycle: when something changed, decide, and write what was decided.

A decision counts at once, in the tree and the queues; its writes follow, many at a time, those about one workload one
after the other. Each is made only if the workload still is what the decision saw; if it is not, or the write fails,
the workload is put back where its state says, and the workloads that could profit are looked at again.

Why a workload waits is written down when it has been so for a moment: in a busy queue most reasons are gone before.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import takewhile

import msgspec
from msgspec.structs import replace

from muster.api.conditions import find, is_true
from muster.api.kueue import WORKLOAD, PodSetRequest, Workload, WorkloadStatus
from muster.api.kueue.names import (
    ADMITTED,
    EVICTED,
    FINISHED,
    JOB_UID_LABEL,
    MISCONFIGURED,
    PREEMPTED,
    QUOTA_RESERVED,
    SUSPENDED,
)
from muster.api.status import ApiError
from muster.api.values.quantity import format_amount
from muster.controllers.queueing.cache import QueueingCache
from muster.queueing import model
from muster.queueing.conditions import stamped
from muster.queueing.elastic.growth import raised
from muster.queueing.pending.queues import HELD_BACK
from muster.queueing.scheduling import cycle, explain
from muster.queueing.scheduling.preemption import classical
from muster.queueing.workload.eviction import release
from muster.queueing.workload.reservation import admission as admission_of
from muster.queueing.workload.reservation import preempted, reserved
from muster.runtime.controller import Result
from muster.runtime.events.recorder import Recorder
from muster.runtime.manager import Manager
from muster.runtime.objects import merge_patch, reference
from muster.runtime.reconciler import Reconciler
from muster.runtime.refusals import is_refusal
from muster.runtime.transport import TransportError

# Writes under way together. More fill no server, but each takes longer then, that of who finishes or comes first, too.
AT_ONCE = 8

# Nominations between two turns of the event loop: some tens of milliseconds.
LOOKS_AT_ONCE = 200

# After a cycle, so many times as long as it took is left to others, up to a limit: each looks at the heads of whole
# trees, so what ends meanwhile is given away together.
PAUSES_PER_CYCLE = 9
LONGEST_PAUSE_SECONDS = 0.1

# What holds for less time is not written on a workload that waits.
PENDING_SECONDS = 1.0

# A workload whose admission the server refuses is tried again after this.
REFUSED_SECONDS = 5.0

# How long to wait before the server is asked again how a workload is.
ASK_SECONDS = 1.0

_CYCLE = "cycle"
_SWEEP = "sweep"  # no workload's key: those have a namespace

# What a cycle decided, and how many seconds it took.
Cycled = Callable[[cycle.Outcome, float], None]

log = logging.getLogger(__name__)


class AdmissionController(Reconciler):
    """Runs under a `Manager`."""

    name = "admission"

    def __init__(
        self,
        manager: Manager,
        cache: QueueingCache,
        recorder: Recorder,
        *,
        cycled: Sequence[Cycled] = (),
        spare: cycle.Spare = cycle.spare_none,
    ) -> None:
        """cycled: they are told of each cycle. spare: whether elastic workloads shrink for a decision instead."""
        super().__init__(manager)
        self._cache = cache
        self._recorder = recorder
        self._cycled = cycled
        self._spare = spare
        self._pending = manager.controller(f"{self.name}-pending", self._explain, workers=2)
        self._waiting: dict[str, float] = {}  # workloads that may have to be told why they wait, and when
        self._writes: dict[str, asyncio.Task[None]] = {}  # the last one about each workload
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._stopping = False
        cache.on_wake(partial(self._controller.queue.add, _CYCLE))
        cache.on_wait(self._wait)

    async def run(self) -> None:
        """Admit until `stop`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run())
            group.create_task(self._pending.run())

    async def stop(self) -> None:
        """Decide nothing any more, and wait for what is being written."""
        self._stopping = True
        await super().stop()
        await self._pending.stop()
        while self._writes:
            await asyncio.wait(self._writes.values())

    async def _reconcile(self, key: str) -> Result:  # noqa: ARG002  (there is one)
        # Nothing is decided while what was decided waits to be written: what comes meanwhile may go first.
        async with self._limit:
            cache, now = self._cache, self._clock.now()
        started = self._clock.monotonic()
        outcome = cycle.run(
            cache.tree, cache.queues, cache.flavors, cache.settings, now, limit=LOOKS_AT_ONCE, spare=self._spare
        )
        for listener in self._cycled:
            listener(outcome, self._clock.monotonic() - started)
        for admission in outcome.admitted:
            self._write(admission.workload.whole, partial(self._admit, admission))
        for decision in outcome.preemptions:
            self._preempt(decision)
        for waiting in outcome.pending:
            cache.waits(waiting.workload.whole)
        if cache.queues.untried:
            return 0.0
        await self._clock.sleep(pause_after(self._clock.monotonic() - started))
        wake = cache.queues.next_wake
        return None if wake is None else max(0.0, (wake - self._clock.now()).total_seconds())

    # Writing.

    def _write(self, key: str, work: Callable[[], Awaitable[Workload]]) -> None:
        """Write about a workload, after what is being written about it already."""
        self._cache.assume(key)
        before = self._writes.get(key)

        async def run() -> None:
            written: Workload | None = None
            try:
                if before is not None:
                    await asyncio.wait([before])
                async with self._limit:
                    written = await work()
            except Exception as error:  # noqa: BLE001  (whatever it is: what is counted must be what is so)
                written = await self._as_it_is(key, error)
            finally:
                if self._writes.get(key) is task:
                    del self._writes[key]
                self._cache.settle(key, written)
                self._cache.wake()

        task = self._writes[key] = asyncio.create_task(run(), name=f"write-{key}")

    async def _as_it_is(self, key: str, error: Exception) -> Workload | None:
        """The workload after a write about it failed: only the server knows whether it was made. None if it is gone.

        Until the server has said so, what was decided counts: quota is never given twice.
        """
        if is_refusal(error, "NotFound", "Conflict"):
            log.debug("%s changed meanwhile, deciding again: %s", key, error)
        else:
            expected = isinstance(error, ApiError | TransportError)
            level, trace = (logging.WARNING, None) if expected else (logging.ERROR, error)
            log.log(level, "%s: not written, again in %g s: %s", key, REFUSED_SECONDS, error, exc_info=trace)
            await self._clock.sleep(REFUSED_SECONDS)
        namespace, _, name = key.partition("/")
        while not self._stopping:
            try:
                return await self._client.find(WORKLOAD, name, namespace)
            except (ApiError, TransportError) as refusal:
                log.debug("%s: not to be read, asking again: %s", key, refusal)
            await self._clock.sleep(ASK_SECONDS)
        return None

    async def _admit(self, admission: cycle.Admission) -> Workload:
        workload, assignment = admission.workload, admission.assignment
        obj = await self._current(workload)
        now = self._clock.now()
        if not self._cache.is_still(workload, obj):
            return obj
        if workload.growth_of:
            return await self._set_status(obj, raised(obj.status, admission_of(workload.queue, assignment)))
        queue = self._cache.tree.queues.get(workload.queue)
        if queue is None:
            return obj
        status = reserved(obj.status, queue.policy, assignment, now)
        written = await self._set_status(obj, status)
        waited = int((now - workload.queued).total_seconds())
        message = f"Quota reserved in ClusterQueue {workload.queue}, wait time since queued was {waited}s"
        considered = explain.considered(assignment)
        self._tell(obj, QUOTA_RESERVED, message + (f"; Flavors considered: {considered}" if considered else ""))
        if is_true(status.conditions, ADMITTED):
            self._tell(obj, ADMITTED, f"Admitted by ClusterQueue {workload.queue}, wait time since reservation was 0s")
        return written

    def _preempt(self, decision: cycle.Preemption) -> None:
        """Evict those who are not evicted yet."""
        incoming = self._cache.workloads.get(decision.workload.whole)
        job_uid = incoming.metadata.labels.get(JOB_UID_LABEL, "") if incoming is not None else ""
        for victim in decision.victims:
            current = self._cache.tree.holder(victim.workload.key)
            if current is None or current.evicted:
                continue
            message = classical.message(self._cache.tree, decision.workload, victim, job_uid=job_uid)
            self._cache.tree.hold(replace(current, evicted=True))
            self._write(current.whole, partial(self._evict, victim, message, incoming))

    async def _evict(self, victim: classical.Victim, message: str, incoming: Workload | None) -> Workload:
        obj = await self._current(victim.workload)
        conditions = obj.status.conditions
        if not is_true(conditions, QUOTA_RESERVED) or is_true(conditions, EVICTED) or is_true(conditions, FINISHED):
            return obj  # it goes, or went, anyway
        written = await self._set_status(obj, preempted(obj.status, victim.reason, message, self._clock.now()))
        self._tell(obj, PREEMPTED, message)
        self._tell(obj, f"EvictedDueTo{PREEMPTED}", message)
        if incoming is not None:
            where = f"{obj.metadata.namespace}/{obj.metadata.name}"
            said = f"Preempted workload {where}: {victim.reason}"
            self._recorder.event(reference(WORKLOAD, incoming), "Normal", "PreemptedWorkload", said, series=True)
        return written

    async def _current(self, workload: model.WorkloadInfo) -> Workload:
        """The workload as it is; the cache may be behind what we wrote ourselves."""
        seen = self._cache.latest(workload.whole)
        if seen is not None and seen.metadata.uid == workload.uid:
            return seen
        namespace, _, name = workload.whole.partition("/")
        return await self._client.get(WORKLOAD, name, namespace)

    async def _set_status(self, obj: Workload, status: WorkloadStatus) -> Workload:
        conditions = stamped(obj.status.conditions, status.conditions, obj.metadata.generation)
        patch = merge_patch(msgspec.structs.replace(status, conditions=conditions), obj.status)
        return await self._client.patch_object(WORKLOAD, obj, {"status": patch}, subresource="status")

    # Telling why.

    def _wait(self, key: str) -> None:
        """Look in a while whether the workload still waits. Most do not: so there is one timer for all."""
        if not self._waiting:
            self._pending.queue.add_after(_SWEEP, PENDING_SECONDS)
        self._waiting.setdefault(key, self._clock.monotonic() + PENDING_SECONDS)

    def _sweep(self) -> Result:
        now, cache = self._clock.monotonic(), self._cache
        for key, _ in list(takewhile(lambda waiting: waiting[1] <= now, self._waiting.items())):
            del self._waiting[key]
            if key in cache.queues or key in cache.unfit:
                self._pending.queue.add(key)
        due = next(iter(self._waiting.values()), None)
        return None if due is None else max(due - now, PENDING_SECONDS / 4)

    async def _explain(self, key: str) -> Result:
        """Write down why a workload waits, if it does and does not say so yet."""
        if key == _SWEEP:
            return self._sweep()
        obj = self._cache.latest(key)
        if obj is None or key in self._writes or is_true(obj.status.conditions, QUOTA_RESERVED):
            return None
        problem = self._cache.unfit.get(key)
        note = (MISCONFIGURED, problem) if problem else self._cache.queues.why(key)
        reserved = find(obj.status.conditions, QUOTA_RESERVED)
        if note is None or (
            note == HELD_BACK and (reserved is None or reserved.reason not in (SUSPENDED, MISCONFIGURED))
        ):
            return None  # but a reason that does not hold any more is taken back
        reason, message = note
        status = release(obj.status, message, self._clock.now(), reason)
        if status is obj.status:
            return None
        waiting = self._cache.queues.workload(key)
        requests = _requests(waiting) if waiting is not None else ()
        written = await self._set_status(obj, msgspec.structs.replace(status, resource_requests=requests))
        self._cache.wrote(written)
        self._recorder.event(reference(WORKLOAD, obj), "Warning", "Pending", message)
        return None

    def _tell(self, obj: Workload, reason: str, message: str) -> None:
        self._recorder.event(reference(WORKLOAD, obj), "Normal", reason, message)


def pause_after(seconds: float) -> float:
    """How long no cycle follows one that took so long."""
    return min(seconds * PAUSES_PER_CYCLE, LONGEST_PAUSE_SECONDS)


def _requests(workload: model.WorkloadInfo) -> tuple[PodSetRequest, ...]:
    """What all pods of each podset ask for together."""
    return tuple(
        PodSetRequest(
            name=podset.name,
            resources={
                resource: format_amount(resource, amount * podset.count) for resource, amount in podset.requests.items()
            },
        )
        for podset in workload.podsets
    )
