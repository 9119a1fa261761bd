"""Reconcile Jobs: read caches, call `muster.jobs.job.decide`, write its plan.

A Job is reconciled when it or its pods change, but not before the caches show this controller's own writes. Events of a
big Job are gathered for a moment, so that many of them share one pass over all its pods; a small Job is reconciled as
soon as a pod ends. All memory here is a cache: after a crash between any two writes, a new controller continues the
work.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import msgspec
from msgspec import Struct, field

from muster.api.batch import JOB, JOB_CONTROLLER_NAME, TRACKING_FINALIZER, UNTRACK, Job, JobStatus
from muster.api.core import NAMESPACE, POD, Namespace, Pod
from muster.api.meta import OwnerReference, controller_of
from muster.api.pods import is_finished, job_reference
from muster.api.status import ApiError
from muster.controllers.delays import BEGINNING_SECONDS, SHOW_SECONDS, STALE_SECONDS
from muster.controllers.job import claims
from muster.controllers.job.metrics import JobMetrics
from muster.controllers.job.orphans import Orphans
from muster.controllers.job.writer import Writer
from muster.jobs.job.backoff import Backoff
from muster.jobs.job.conditions import finish
from muster.jobs.job.decide import decide
from muster.jobs.job.plan import JobPlan, Outcome
from muster.jobs.job.terms import managed_by
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.ownwrites import Expectations
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import BY_NAMESPACE, by_namespace, family_of, key_of, own_key, revision_of
from muster.runtime.transport import TransportError
from muster.runtime.writes import Refusal, is_unsure

WORKERS = 16

# How long the events of a Job are gathered, in seconds for each of its pods, so that reconciles cost at most a few
# percent of the time. The result is never longer than upstream's delay. Ended pods cost less to read, and a long sweep
# has many of them: its next trial must not wait for them.
GATHER_SECONDS_PER_POD = 0.0002
GATHER_SECONDS_PER_ENDED = 0.00003
GATHER_SECONDS_MOST = 1.0


class _Memory(Struct):
    """The state that the controller keeps of a Job between two reconciles. All of it may be lost."""

    uid: str
    since: float  # when it was first reconciled
    gather: float = 0.0  # for how many seconds its events are gathered
    waits: bool = False  # whether it waits for the caches
    storing: bool = False  # a status write is under way, whose event may arrive before its response
    unsure: bool = False  # whether there may be pods whose creation got no response
    backoff: Backoff | None = None
    expected: Expectations = field(default_factory=Expectations)


class JobController(Reconciler):
    """The reconciler of the Jobs whose `managedBy` is `manages`, by default Jobs without `managedBy`."""

    name = "job-controller"

    def __init__(
        self,
        manager: Manager,
        recorder: Recorder,
        *,
        manages: str = JOB_CONTROLLER_NAME,
    ) -> None:
        super().__init__(manager, workers=WORKERS, lane=lambda key: family_of(key, self._jobs.get(key)))
        self._manages = manages
        self._metrics = JobMetrics(manager.registry)
        self._writer = Writer(manager.client, recorder)
        self._memories: dict[str, _Memory] = {}
        self._jobs = manager.informer(
            JOB,
            indexes={claims.BY_UID: claims.by_uid, claims.MANUAL: claims.key_if_manual, BY_NAMESPACE: by_namespace},
        )
        self._namespaces = manager.informer(NAMESPACE)
        self._pods = manager.informer(
            POD, indexes={claims.BY_CONTROLLER: claims.by_controller, claims.UNCONTROLLED: claims.key_if_uncontrolled}
        )
        self._orphans = Orphans(manager, self._jobs, self._pods, self._writer, f"{self.name}-orphans", manages)
        self._jobs.on_change(self._on_job_changed)
        self._pods.on_change(self._on_pod_changed)
        self._namespaces.on_change(self._on_namespace_changed)

    async def run(self) -> None:
        """Reconcile Jobs, and release orphaned pods, until `stop`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run())
            group.create_task(self._orphans.controller.run())

    async def stop(self) -> None:
        """Stop the reconciles of Jobs and of orphaned pods, after the running writes."""
        await super().stop()
        await self._orphans.controller.stop()

    # Events to keys.

    def _on_job_changed(self, old: Job | None, new: Job | None) -> None:
        job = new if new is not None else old
        assert job is not None
        key = key_of(job)
        if old is None and managed_by(job) not in (JOB_CONTROLLER_NAME, self._manages):
            self._metrics.managed_elsewhere(managed_by(job))
        if new is None or finish(new) is not None:
            self._orphans.job_ended(job, deleted=new is None)
        if old is None or new is None or _read_spec_version(old) != _read_spec_version(new):
            self._controller.queue.add(key)
            return
        memory = self._find_memory(key, job.metadata.uid)
        if memory is not None and memory.waits:
            self._wake_if_seen(key, memory, new)
        elif memory is None or not (memory.storing or revision_of(new) == memory.expected.owner):
            self._controller.queue.add_after(key, SHOW_SECONDS)
        # Otherwise this is the controller's own status write, and its decision needs no other reconcile.

    def _on_pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        assert pod is not None
        self._metrics.pod_changed(old, new)
        if new is not None:
            self._orphans.pod_changed(new)
        owner = job_reference(pod)
        if owner is not None:
            self._on_pod_of_job_changed(owner, pod, new)
        elif new is not None and controller_of(new.metadata) is None:
            for job in claims.find_adopters(new, self._jobs):
                self._controller.queue.add_after(key_of(job), SHOW_SECONDS)
        before = job_reference(old) if old is not None else None
        if before is not None and (owner is None or before.uid != owner.uid):
            self._controller.queue.add(f"{pod.metadata.namespace}/{before.name}")

    def _on_namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if _is_closing(new) and not _is_closing(old):
            assert new is not None
            for job in self._jobs.by(BY_NAMESPACE, new.metadata.name):
                self._controller.queue.add(key_of(job))

    def _on_pod_of_job_changed(self, owner: OwnerReference, pod: Pod, new: Pod | None) -> None:
        key = f"{pod.metadata.namespace}/{owner.name}"
        memory, job = self._find_memory(key, owner.uid), self._jobs.get(key)
        if memory is None or job is None:
            self._controller.queue.add(key)
            return
        memory.expected.saw(pod.metadata.uid, new)
        if memory.waits:
            self._wake_if_seen(key, memory, job)
            return
        delay = min(memory.gather, GATHER_SECONDS_MOST)
        if new is not None and new.metadata.deletion_timestamp is None and not is_finished(new):
            delay = max(delay, SHOW_SECONDS)
        self._controller.queue.add_after(key, delay)

    def _wake_if_seen(self, key: str, memory: _Memory, job: Job) -> None:
        if memory.expected.are_met(job, self._pods.version):
            self._controller.queue.add(key)

    def _find_memory(self, key: str, uid: str) -> _Memory | None:
        memory = self._memories.get(key)
        return memory if memory is not None and memory.uid == uid else None

    # One Job.

    async def _reconcile(self, key: str) -> Result:
        """Reconcile one Job; return the seconds until its next reconcile, or None.

        Nothing is decided before the caches show all earlier writes to the Job and its pods.
        """
        job = self._jobs.get(key)
        if job is None or finish(job) is not None or managed_by(job) != self._manages:
            self._memories.pop(key, None)
            return None
        memory = self._find_memory(key, job.metadata.uid)
        if memory is None:
            memory = self._memories[key] = _Memory(job.metadata.uid, self._clock.monotonic())
        if memory.unsure:
            await self._ask_for_pods(job, memory)
        pods = self._pods.by(claims.BY_CONTROLLER, own_key(job.metadata))
        memory.gather = _find_gathering_time(pods)
        memory.expected.check_cache(pods)
        memory.waits = not memory.expected.are_met(job, self._pods.version)
        if memory.waits:
            self._metrics.put_off()
            return STALE_SECONDS
        if _is_beginning(job, pods) and (left := memory.since + BEGINNING_SECONDS - self._clock.monotonic()) > 0:
            return left
        started = self._clock.monotonic()
        plan: JobPlan | None = None
        failed = True
        try:
            if await self._claim_pods(job, pods, memory):
                failed = False
                return 0.0
            now = self._clock.now()
            closing = _is_closing(self._namespaces.get(job.metadata.namespace))
            decision = partial(decide, job, pods, now=now, backoff=memory.backoff, closing=closing)
            plan = decision()
            await self._perform(job, plan, decision, memory)
            failed = False
        finally:
            self._metrics.count_sync(job, plan, failed=failed, seconds=self._clock.monotonic() - started)
        return _find_next_reconcile(plan, self._clock.now())

    async def _ask_for_pods(self, job: Job, memory: _Memory) -> None:
        """List the Job's pods from the server, because the response to a creation was lost.

        No pod is created before the cache shows all of these pods; otherwise pods would be created twice.
        """
        if (selects := claims.make_matcher(job)) is not None:
            for pod in (await self._client.list(POD, job.metadata.namespace, labels=str(selects))).items:
                memory.expected.wrote(pod)
        memory.unsure = False

    async def _claim_pods(self, job: Job, pods: Sequence[Pod], memory: _Memory) -> bool:
        """Adopt and release pods of the Job, by its selector; return whether there were any to adopt or release."""
        leaving = claims.find_strangers(job, pods)
        coming = claims.find_adoptable_pods(job, self._pods)
        if coming:
            # The cache may not show the Job's deletion yet.
            fresh = await self._client.get(JOB, job.metadata.name, job.metadata.namespace)
            if fresh.metadata.uid != job.metadata.uid or fresh.metadata.deletion_timestamp is not None:
                coming = []
        if not leaving and not coming:
            return False
        let_go = {"ownerReferences": [{"$patch": "delete", "uid": job.metadata.uid}]} | UNTRACK
        adopt = {
            "ownerReferences": [msgspec.to_builtins(JOB.refer_to_controller(job.metadata))],
            "finalizers": [TRACKING_FINALIZER],
        }
        errors = await self._writer.change(leaving, let_go, memory.expected)
        errors += await self._writer.change(coming, adopt, memory.expected)
        if errors:
            raise errors[0]
        return True

    async def _perform(self, job: Job, plan: JobPlan, decision: Callable[..., JobPlan], memory: _Memory) -> None:
        """Write the plan. Raises an error of the status write at once, and the first other error at the end.

        decision: repeats the decision, given the `outcome` of the plan's work on pods, if some of that work failed.
        """
        errors: list[Refusal] = []
        if plan.delete or plan.create:
            outcome, errors = await self._change_pods(job, plan, memory)
            if outcome != plan.all_done:
                plan = decision(outcome=outcome)
        if plan.status != job.status:
            await self._store(job, plan.status, memory)
            self._metrics.count_stored_status(job, plan.status)
        self._metrics.count_policy_actions(plan.judged)
        memory.backoff = plan.backoff
        for note in plan.notes:
            self._writer.record_event(job, note.type, note.reason, note.message)
        errors += await self._writer.release(plan.release, memory.expected)
        errors += await self._writer.change(plan.track, {"finalizers": [TRACKING_FINALIZER]}, memory.expected)
        if errors:
            raise errors[0]

    async def _store(self, job: Job, status: JobStatus, memory: _Memory) -> None:
        memory.storing = True
        try:
            await self._writer.store(job, status, memory.expected)
        except (ApiError, TransportError) as error:
            if is_unsure(error):
                # The status may count failures that `backoff` lacks, because `backoff` is rebuilt from the remaining
                # pods.
                memory.backoff = None
            raise
        finally:
            memory.storing = False
            key, newest = key_of(job), max(memory.expected.owner, revision_of(job))
            if (cached := self._jobs.get(key)) is not None and revision_of(cached) > newest:
                self._controller.queue.add_after(key, SHOW_SECONDS)  # another program has changed it meanwhile

    async def _change_pods(self, job: Job, plan: JobPlan, memory: _Memory) -> tuple[Outcome, list[Refusal]]:
        if plan.delete:
            report = await self._writer.delete(job, plan.delete, memory.expected)
        else:
            report = await self._writer.create(job, plan.create, memory.expected)
            memory.unsure = any(map(is_unsure, report.errors))
            self._metrics.pods_created(job, plan, report.outcome.created, len(report.errors))
            memory.gather += report.outcome.created * GATHER_SECONDS_PER_POD
        return report.outcome, report.errors


def _read_spec_version(job: Job) -> tuple[int, bool]:
    """Return a value that changes when a user changes the Job's spec or deletes it."""
    return job.metadata.generation, job.metadata.deletion_timestamp is None


def _is_beginning(job: Job, pods: Sequence[Pod]) -> bool:
    """Return whether a suspended Job has never run and has no status yet."""
    status = job.status
    return bool(job.spec.suspend) and not pods and not status.conditions and status.start_time is None


def _is_closing(namespace: Namespace | None) -> bool:
    return namespace is not None and namespace.metadata.deletion_timestamp is not None


def _find_next_reconcile(plan: JobPlan, now: datetime) -> Result:
    if plan.more:
        return 0.0
    return max(0.0, (plan.wake_at - now).total_seconds()) if plan.wake_at else None


def _find_gathering_time(pods: Sequence[Pod]) -> float:
    ended = sum(map(is_finished, pods))
    return (len(pods) - ended) * GATHER_SECONDS_PER_POD + ended * GATHER_SECONDS_PER_ENDED
