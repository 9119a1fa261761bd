"""Run the lifecycle of Workloads, except admission; `queueing.workload.lifecycle` decides.

A workload is reconciled when it changes, when one of its queues changes in a relevant field, and at times that the last
decision requested.

Every write is made only if the workload still has the state that the decision read. After a crash between two writes,
the next reconcile continues.
"""

from collections.abc import Iterable
from typing import Final, cast

from muster.api.conditions import is_true
from muster.api.config import Configuration
from muster.api.kueue import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    WORKLOAD,
    ClusterQueue,
    LocalQueue,
    ResourceFlavor,
    Workload,
)
from muster.api.kueue.names import QUOTA_RESERVED, RESOURCE_IN_USE_FINALIZER
from muster.api.kueue.readiness import READY_ANNOTATION
from muster.api.managed.variants import role_of
from muster.api.ours.decisions import Decision
from muster.controllers.decisionlog import DecisionLog
from muster.controllers.queueing.decisions import subject_of
from muster.controllers.queueing.indexes import (
    HOLDERS_BY_CLUSTER_QUEUE,
    LOCAL_QUEUES_BY_CLUSTER_QUEUE,
    WORKLOADS_BY_LOCAL_QUEUE,
    by_cluster_queue,
    by_holding,
    by_local_queue,
)
from muster.queueing.decisions import describe_eviction
from muster.queueing.model import StopPolicy
from muster.queueing.workload import checks
from muster.queueing.workload.lifecycle import LifecyclePlan, QueueingContext, decide
from muster.queueing.workload.obstacles import QueueState
from muster.queueing.workload.readiness import settings_for
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import key_of, make_reference, merge_patch
from muster.runtime.refusals import ignoring

WORKERS: Final = 16


class WorkloadController(Reconciler):
    """The reconciler of Workloads."""

    name = "workload"

    def __init__(
        self,
        manager: Manager,
        recorder: Recorder,
        configuration: Configuration,
        decisions: DecisionLog | None = None,
    ) -> None:
        """Create the controller.

        decisions: the log to which evictions are added; None for no log.
        """
        super().__init__(manager, workers=WORKERS)
        self._decisions = DecisionLog() if decisions is None else decisions
        self._recorder = recorder
        self._waiting = configuration.wait_for_pods_ready
        self._kept = configuration.object_retention_policies.workloads.after_finished
        self._has_variants = configuration.features.is_enabled("ConcurrentAdmission")
        self._workloads = manager.informer(
            WORKLOAD, indexes={WORKLOADS_BY_LOCAL_QUEUE: by_local_queue, HOLDERS_BY_CLUSTER_QUEUE: by_holding}
        )
        self._local_queues = manager.informer(
            LOCAL_QUEUE,
            indexes={LOCAL_QUEUES_BY_CLUSTER_QUEUE: by_cluster_queue},
        )
        self._queues = manager.informer(CLUSTER_QUEUE)
        self._flavors = manager.informer(RESOURCE_FLAVOR)
        self._controller.watch(self._workloads)
        self._controller.watch(self._local_queues, self._find_queued, when=_has_local_queue_changed)
        self._controller.watch(self._queues, self._find_concerned, when=_has_cluster_queue_changed)
        self._controller.watch(self._flavors, self._find_users, when=_has_flavor_changed)

    # The workloads that a change concerns.

    def _find_queued(self, queue: LocalQueue) -> Iterable[str]:
        return map(key_of, self._workloads.by(WORKLOADS_BY_LOCAL_QUEUE, key_of(queue)))

    def _find_concerned(self, queue: ClusterQueue) -> Iterable[str]:
        name = queue.metadata.name
        for local in self._local_queues.by(LOCAL_QUEUES_BY_CLUSTER_QUEUE, name):
            yield from self._find_queued(local)
        yield from map(key_of, self._workloads.by(HOLDERS_BY_CLUSTER_QUEUE, name))

    def _find_users(self, flavor: ResourceFlavor) -> Iterable[str]:
        for queue in self._queues.all():
            if any(one.name == flavor.metadata.name for group in queue.spec.resource_groups for one in group.flavors):
                yield from map(key_of, self._workloads.by(HOLDERS_BY_CLUSTER_QUEUE, queue.metadata.name))

    # Reconciliation of one workload.

    async def _reconcile(self, key: str) -> Result:
        workload = self._workloads.get(key)
        if workload is None:
            return None
        plan = decide(workload, self._make_context(workload), self._clock.now())
        with ignoring("NotFound"):
            await self._write(workload, plan)
            return None if plan.wake_at is None else max(0.0, (plan.wake_at - self._clock.now()).total_seconds())
        return None

    def _make_context(self, workload: Workload) -> QueueingContext:
        meta, spec, admission = workload.metadata, workload.spec, workload.status.admission
        local = self._local_queues.get(f"{meta.namespace}/{spec.queue_name}")
        name = local.spec.cluster_queue if local is not None else ""
        if admission is not None and is_true(workload.status.conditions, QUOTA_RESERVED):
            name = admission.cluster_queue
        queue = self._queues.get(name)
        return QueueingContext(
            local=_read_queue_state(spec.queue_name, local),
            queue=_read_queue_state(name, queue),
            checks=checks.of_queue(queue.spec) if queue is not None else {},
            waiting=settings_for(
                self._waiting,
                meta.annotations,
                queue.metadata.annotations if queue is not None else {},
                [flavor.metadata.annotations for flavor in self._list_flavors(workload)],
            ),
            kept=self._kept,
            role=role_of(workload) if self._has_variants else "",
        )

    def _list_flavors(self, workload: Workload) -> Iterable[ResourceFlavor]:
        admission = workload.status.admission
        podsets = admission.pod_set_assignments if admission is not None else ()
        names = dict.fromkeys(name for podset in podsets for name in podset.flavors.values())
        return [flavor for name in names if (flavor := self._flavors.get(name)) is not None]

    async def _write(self, workload: Workload, plan: LifecyclePlan) -> None:
        if plan.status != workload.status:
            status = merge_patch(plan.status, workload.status)
            evicted = self._describe_eviction(workload, plan)
            workload = await self._client.patch_object(WORKLOAD, workload, {"status": status}, subresource="status")
            if evicted is not None:
                self._decisions.add(evicted)
        if plan.deactivate:
            workload = await self._client.patch_object(WORKLOAD, workload, {"spec": {"active": False}})
        if plan.finalize:
            finalizers = [name for name in workload.metadata.finalizers if name != RESOURCE_IN_USE_FINALIZER]
            patch = {"metadata": {"finalizers": finalizers or None}}
            workload = await self._client.patch_object(WORKLOAD, workload, patch)
        if plan.delete:
            await self._client.delete_object(WORKLOAD, workload)
        for note in plan.notes:
            self._recorder.event(make_reference(WORKLOAD, workload), note.type, note.reason, note.message)

    def _describe_eviction(self, workload: Workload, plan: LifecyclePlan) -> Decision | None:
        admission = workload.status.admission
        queue = admission.cluster_queue if admission is not None else ""
        return describe_eviction(plan, subject_of(workload), queue, self._clock.now()) if plan.notes else None


def _read_queue_state(name: str, queue: LocalQueue | ClusterQueue | None) -> QueueState:
    if queue is None:
        return QueueState(name)
    return QueueState(
        name,
        cast("StopPolicy", queue.spec.stop_policy),
        terminating=queue.metadata.deletion_timestamp is not None,
    )


# Changes that concern workloads. Most other changes concern counts and usage.


def _has_local_queue_changed(old: LocalQueue | None, new: LocalQueue | None) -> bool:
    return old is None or new is None or _read_queue_state("", old) != _read_queue_state("", new)


def _has_cluster_queue_changed(old: ClusterQueue | None, new: ClusterQueue | None) -> bool:
    return old is None or new is None or _read_relevant_state(old) != _read_relevant_state(new)


def _read_relevant_state(queue: ClusterQueue) -> tuple[object, ...]:
    return _read_queue_state("", queue), checks.of_queue(queue.spec), queue.metadata.annotations.get(READY_ANNOTATION)


def _has_flavor_changed(old: ResourceFlavor | None, new: ResourceFlavor | None) -> bool:
    before = old.metadata.annotations.get(READY_ANNOTATION) if old is not None else None
    after = new.metadata.annotations.get(READY_ANNOTATION) if new is not None else None
    return before != after
