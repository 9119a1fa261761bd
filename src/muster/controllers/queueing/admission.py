"""Run the admission cycle when something changed, and write its decisions.

A decision counts at once, in the tree and the queues. Its writes follow. Writes for different workloads are concurrent,
and writes for one workload run one after the other. Each write is made only if the workload still has the state that
the decision read. If it has not, or the write fails, the workload is placed by its current state, and the workloads
that could now fit are tried again.

The reason for which a workload waits is written after a delay, because in a busy queue most reasons disappear sooner.
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
    EVICTED_DUE_TO,
    FINISHED,
    FLAVOR_MIGRATION,
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
from muster.queueing.conditions import stamp_generation
from muster.queueing.elastic.growth import add_growth
from muster.queueing.pending.queues import HELD_BACK
from muster.queueing.scheduling import cycle, explain
from muster.queueing.scheduling.migration import GATED
from muster.queueing.scheduling.preemption import classical
from muster.queueing.workload.eviction import evict, release
from muster.queueing.workload.readiness import begin_readiness
from muster.queueing.workload.reservation import make_admission as admission_of
from muster.queueing.workload.reservation import mark_blocked, mark_preempted, reserve_quota
from muster.runtime.control.backoff import Backoff
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import key_of, make_reference, merge_patch
from muster.runtime.refusals import is_refusal
from muster.runtime.transport import TransportError

# The maximum number of concurrent writes. More would not use the server better, but would make each write slower.
AT_ONCE = 8

# The number of nominations after which the event loop runs other tasks: some tens of milliseconds.
LOOKS_AT_ONCE = 200

# After a cycle, the pause is this many times as long as the cycle took, up to a limit. Each cycle tries the heads of
# whole trees, so it assigns all quota that was freed during the pause.
PAUSES_PER_CYCLE = 9
LONGEST_PAUSE_SECONDS = 0.1

# A reason for waiting is written only after it has lasted this many seconds.
PENDING_SECONDS = 1.0

# The delay before a workload whose write the server refused is tried again.
REFUSED_SECONDS = 5.0

# For this many seconds, all writes that fail because of the same server trouble share one line in the log.
GATHER_SECONDS = 1.0
WRITE_FAILED = "%s: the write failed, deciding again in %g s: %s"

# The delay before reading a workload that another client changed, by the number of conflicts in a row. A read does not
# show that change until it is stored, which takes long on a busy disk.
CHANGED = Backoff(first=0.01, limit=1.0)

# The delay before a failed read of a workload is repeated.
ASK_SECONDS = 1.0

_CYCLE = "cycle"
_SWEEP = "sweep"  # not the key of a workload, which contains a namespace

# A callback with a waiting workload, the reason and the message.
Waits = Callable[[Workload, str, str], None]

# A callback with the outcome of a cycle and its duration in seconds.
Cycled = Callable[[cycle.CycleOutcome, float], None]

log = logging.getLogger(__name__)


def watch_none(_: Workload) -> bool:
    """Return False: the readiness timeout applies to no workload."""
    return False


class AdmissionController(Reconciler):
    """The reconciler that runs admission cycles, and writes their decisions on the Workloads."""

    name = "admission"

    def __init__(
        self,
        manager: Manager,
        cache: QueueingCache,
        recorder: Recorder,
        *,
        on_cycle: Sequence[Cycled] = (),
        spare: cycle.Spare = cycle.spare_none,
        on_wait: Waits | None = None,
        watched: Callable[[Workload], bool] = watch_none,
    ) -> None:
        """Create the controller.

        on_cycle: functions to call after each cycle.
        on_wait: function to call when the reason of a waiting workload is written.
        spare: returns whether elastic workloads will shrink, so that a planned preemption is unnecessary.
        watched: returns whether the readiness timeout applies to an admitted workload's pods.
        """
        super().__init__(manager)
        self._cache = cache
        self._recorder = recorder
        self._cycled = on_cycle
        self._spare = spare
        self._on_wait = on_wait
        self._watched = watched
        self._pending = manager.controller(f"{self.name}-pending", self._explain, workers=2)
        self._waiting: dict[str, float] = {}  # by workload: when to write why it waits
        self._writes: dict[str, asyncio.Task[None]] = {}  # by workload: its last write
        self._conflicts: dict[str, tuple[str, int]] = {}  # by workload: its UID, and the conflicts in a row
        # By kind of server trouble, the workloads that the next line of the log counts.
        self._unstored: dict[tuple[type[Exception], int], list[str]] = {}
        self._random = manager.random
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._stopping = False
        cache.notifier.on_wake(partial(self._controller.queue.add, _CYCLE))
        cache.notifier.on_wait(self._schedule_explanation)
        cache.workloads.on_change(self._forget_conflicts)

    async def run(self) -> None:
        """Run admission cycles, and write why workloads wait, until `stop`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run())
            group.create_task(self._pending.run())

    async def stop(self) -> None:
        """Stop deciding, and wait for the running writes."""
        self._stopping = True
        await super().stop()
        await self._pending.stop()
        while self._writes:
            await asyncio.wait(self._writes.values())

    async def _reconcile(self, key: str) -> Result:  # noqa: ARG002  (there is one)
        # No cycle runs while decisions wait to be written, because workloads that arrive in the meantime may come
        # first.
        async with self._limit:
            cache, now = self._cache, self._clock.now()
        started = self._clock.monotonic()
        cache.settle_quotas()
        outcome = cycle.run(
            cache.tree, cache.queues, cache.flavors, cache.settings, now, limit=LOOKS_AT_ONCE, spare=self._spare
        )
        for listener in self._cycled:
            listener(outcome, self._clock.monotonic() - started)
        for admission in outcome.admitted:
            self._write(admission.workload, partial(self._admit, admission))
        for decision in outcome.preemptions:
            self._preempt(decision)
        for waiting in outcome.pending:
            cache.notifier.notify_wait(waiting.workload.whole)
        if cache.queues.untried:
            return 0.0
        await self._clock.sleep(pause_after(self._clock.monotonic() - started))
        wake = cache.queues.next_wake
        return None if wake is None else max(0.0, (wake - self._clock.now()).total_seconds())

    # Writing.

    def _write(self, workload: model.WorkloadInfo, work: Callable[[], Awaitable[Workload]]) -> None:
        """Start a write for a workload, after the running writes for that workload."""
        key = workload.whole
        self._cache.assume(key)
        before = self._writes.get(key)

        async def run() -> None:
            result: Workload | None = None
            try:
                if before is not None:
                    await asyncio.wait([before])
                async with self._limit:
                    result = await work()
                self._conflicts.pop(key, None)
            except Exception as error:  # noqa: BLE001  (whatever failed, the cache must match the server)
                result = await self._read_after_failure(key, workload.uid, error)
            finally:
                if self._writes.get(key) is task:
                    del self._writes[key]
                if result is None:
                    self._conflicts.pop(key, None)
                self._cache.settle(key, result)
                self._cache.notifier.wake()

        task = self._writes[key] = asyncio.create_task(run(), name=f"write-{key}")

    async def _read_after_failure(self, key: str, uid: str, error: Exception) -> Workload | None:
        """Return the workload as the server has it after a failed write; None if it is deleted, or on `stop`.

        The server may have stored the write although the client got an error. Until the server answers this read, the
        cache counts the quota of the decision as used, so that no quota is assigned twice.
        """
        if is_refusal(error, "NotFound", "Conflict"):
            log.debug("%s changed meanwhile, deciding again: %s", key, error)
            await self._clock.sleep(CHANGED.delay(self._count_conflict(key, uid), self._random))
        elif isinstance(error, TransportError) or (isinstance(error, ApiError) and error.code >= 500):
            await self._pause_after_outage(key, error)
        else:
            level, trace = (logging.WARNING, None) if isinstance(error, ApiError) else (logging.ERROR, error)
            log.log(level, WRITE_FAILED, key, REFUSED_SECONDS, error, exc_info=trace)
            await self._clock.sleep(REFUSED_SECONDS)
        namespace, _, name = key.partition("/")
        while not self._stopping:
            try:
                return await self._client.find(WORKLOAD, name, namespace)
            except (ApiError, TransportError) as refusal:
                log.debug("%s: the read failed, reading again: %s", key, refusal)
            await self._clock.sleep(ASK_SECONDS)
        return None

    async def _pause_after_outage(self, key: str, error: Exception) -> None:
        """Wait before deciding again about a workload whose write failed because of server trouble.

        Log one line for all workloads with the same trouble, because each pending write fails with it.
        """
        trouble = type(error), error.code if isinstance(error, ApiError) else 0
        unstored = self._unstored.setdefault(trouble, [])
        unstored.append(key)
        is_first = len(unstored) == 1
        await self._clock.sleep(GATHER_SECONDS)
        if is_first:
            others = len(self._unstored.pop(trouble)) - 1
            log.warning(WRITE_FAILED, f"{key} and {others} more" if others else key, REFUSED_SECONDS, error)
        await self._clock.sleep(REFUSED_SECONDS - GATHER_SECONDS)

    def _count_conflict(self, key: str, uid: str) -> int:
        """Count one more conflict of a workload; return how many there were in a row."""
        counted_uid, count = self._conflicts.get(key, (uid, 0))
        count = count + 1 if counted_uid == uid else 1
        self._conflicts[key] = uid, count
        return count

    def _forget_conflicts(self, old: Workload | None, new: Workload | None) -> None:
        """Forget the conflicts of a deleted workload."""
        if new is None and old is not None:
            self._conflicts.pop(key_of(old), None)

    async def _admit(self, admission: cycle.CycleAdmission) -> Workload:
        """Write an admission to the Workload unless the decision is no longer valid; return the Workload as it is then.

        A growth, which stands for further pods of a running elastic workload, is added to the workload's existing
        admission. Any other workload gets QuotaReserved, and Admitted too if all its admission checks are ready. Raises
        `ApiError`, `TransportError`.
        """
        workload, assignment = admission.workload, admission.assignment
        obj = await self._read_latest(workload)
        now = self._clock.now()
        if not self._cache.is_still_valid(workload, obj):
            return obj
        if workload.growth_of:
            return await self._set_status(obj, add_growth(obj.status, admission_of(workload.queue, assignment)))
        queue = self._cache.tree.queues.get(workload.queue)
        if queue is None:
            return obj
        status = reserve_quota(obj.status, queue.policy, assignment, now)
        if self._watched(replace(obj, status=status)):
            status = replace(status, conditions=begin_readiness(status.conditions, now))
        result = await self._set_status(obj, status)
        waited = int((now - workload.queued).total_seconds())
        message = f"Quota reserved in ClusterQueue {workload.queue}, wait time since queued was {waited}s"
        considered = explain.describe_considered(assignment)
        self._record_event(obj, QUOTA_RESERVED, message + (f"; Flavors considered: {considered}" if considered else ""))
        if is_true(status.conditions, ADMITTED):
            self._record_event(
                obj, ADMITTED, f"Admitted by ClusterQueue {workload.queue}, wait time since reservation was 0s"
            )
        return result

    def _preempt(self, decision: cycle.CyclePreemption) -> None:
        """Start the eviction of the victims that are not evicted yet. The quota tree counts them as evicted at once."""
        incoming = self._cache.workloads.get(decision.workload.whole)
        job_uid = incoming.metadata.labels.get(JOB_UID_LABEL, "") if incoming is not None else ""
        for victim in decision.victims:
            current = self._cache.tree.holder(victim.workload.key)
            if current is None or current.evicted:
                continue
            message = classical.explain_preemption(self._cache.tree, decision.workload, victim, job_uid=job_uid)
            self._cache.tree.hold(replace(current, evicted=True))
            self._write(current, partial(self._evict, victim, message, incoming))

    async def _evict(self, victim: classical.Victim, message: str, incoming: Workload | None) -> Workload:
        """Evict a victim, unless its Workload has no quota, is evicted or has ended; return the Workload as it is then.

        message: why the victim is evicted.
        incoming: the workload that preempts it; None if that workload is gone.

        Raises `ApiError`, `TransportError`.
        """
        obj = await self._read_latest(victim.workload)
        conditions = obj.status.conditions
        if not is_true(conditions, QUOTA_RESERVED) or is_true(conditions, EVICTED) or is_true(conditions, FINISHED):
            return obj  # it is or was evicted anyway
        now = self._clock.now()
        if victim.migrates:
            result = await self._set_status(obj, evict(obj.status, FLAVOR_MIGRATION, message, now))
            self._record_event(obj, f"{EVICTED_DUE_TO}{FLAVOR_MIGRATION}", message)
            return result
        result = await self._set_status(obj, mark_preempted(obj.status, victim.reason, message, now))
        self._record_event(obj, PREEMPTED, message)
        self._record_event(obj, f"{EVICTED_DUE_TO}{PREEMPTED}", message)
        if incoming is not None:
            victim_key = f"{obj.metadata.namespace}/{obj.metadata.name}"
            event_message = f"Preempted workload {victim_key}: {victim.reason}"
            self._recorder.event(
                make_reference(WORKLOAD, incoming), "Normal", "PreemptedWorkload", event_message, series=True
            )
        return result

    async def _read_latest(self, workload: model.WorkloadInfo) -> Workload:
        """Return the latest state of the workload; the cache may lack this controller's own writes."""
        latest = self._cache.latest(workload.whole)
        if latest is not None and latest.metadata.uid == workload.uid:
            return latest
        namespace, _, name = workload.whole.partition("/")
        return await self._client.get(WORKLOAD, name, namespace)

    async def _set_status(self, obj: Workload, status: WorkloadStatus) -> Workload:
        conditions = stamp_generation(obj.status.conditions, status.conditions, obj.metadata.generation)
        patch = merge_patch(msgspec.structs.replace(status, conditions=conditions), obj.status)
        return await self._client.patch_object(WORKLOAD, obj, {"status": patch}, subresource="status")

    # Reasons for waiting.

    def _schedule_explanation(self, key: str) -> None:
        """Check after a delay whether the workload still waits. Most do not, so one timer serves all workloads."""
        if not self._waiting:
            self._pending.queue.add_after(_SWEEP, PENDING_SECONDS)
        self._waiting.setdefault(key, self._clock.monotonic() + PENDING_SECONDS)

    def _queue_due(self) -> Result:
        now, cache = self._clock.monotonic(), self._cache
        for key, _ in list(takewhile(lambda waiting: waiting[1] <= now, self._waiting.items())):
            del self._waiting[key]
            if key in cache.queues or key in cache.unfit:
                self._pending.queue.add(key)
        due = next(iter(self._waiting.values()), None)
        return None if due is None else max(due - now, PENDING_SECONDS / 4)

    async def _explain(self, key: str) -> Result:
        """Write why a workload waits, with an event, unless its status shows that or a write for it is running.

        For the key of the sweep, queue the workloads that are due, and return when to sweep again.
        """
        if key == _SWEEP:
            return self._queue_due()
        obj = self._cache.latest(key)
        if obj is None or key in self._writes or is_true(obj.status.conditions, QUOTA_RESERVED):
            return None
        problem = self._cache.unfit.get(key)
        note = (MISCONFIGURED, problem) if problem else self._cache.queues.why(key)
        reserved = find(obj.status.conditions, QUOTA_RESERVED)
        if note is None or (
            note == HELD_BACK and (reserved is None or reserved.reason not in (SUSPENDED, MISCONFIGURED))
        ):
            return None  # but an outdated reason is replaced
        reason, message = note
        status = release(obj.status, message, self._clock.now(), reason)
        if note == GATED:
            status = mark_blocked(status, message, self._clock.now())
        if status is obj.status:
            return None
        waiting = self._cache.queues.workload(key)
        requests = _list_requests(waiting) if waiting is not None else ()
        result = await self._set_status(obj, msgspec.structs.replace(status, resource_requests=requests))
        self._cache.wrote(result)
        if self._on_wait is not None:
            self._on_wait(result, reason, message)
        self._recorder.event(make_reference(WORKLOAD, obj), "Warning", "Pending", message)
        return None

    def _record_event(self, obj: Workload, reason: str, message: str) -> None:
        self._recorder.event(make_reference(WORKLOAD, obj), "Normal", reason, message)


def pause_after(seconds: float) -> float:
    """Return the pause after a cycle that took this many seconds."""
    return min(seconds * PAUSES_PER_CYCLE, LONGEST_PAUSE_SECONDS)


def _list_requests(workload: model.WorkloadInfo) -> tuple[PodSetRequest, ...]:
    """Return the summed requests of all pods, for each podset."""
    return tuple(
        PodSetRequest(
            name=podset.name,
            resources={
                resource: format_amount(resource, amount * podset.count) for resource, amount in podset.requests.items()
            },
        )
        for podset in workload.podsets
    )
