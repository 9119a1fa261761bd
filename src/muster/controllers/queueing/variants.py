"""Maintain the variants of Workloads in ClusterQueues that try several flavors at once; `queueing.variants` decides.

Every write is made only if the Workload still has the state that the decision read. After a crash between two writes,
the next reconcile continues.
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from muster.api.conditions import is_true
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD, ClusterQueue, LocalQueue, Workload
from muster.api.kueue.names import FINISHED, PARENT_LABEL
from muster.api.managed.variants import is_parent, is_variant, parent_of
from muster.controllers.queueing.indexes import (
    LOCAL_QUEUES_BY_CLUSTER_QUEUE,
    WORKLOADS_BY_LOCAL_QUEUE,
    by_cluster_queue,
    by_local_queue,
)
from muster.queueing.conditions import stamp_generation
from muster.queueing.elastic.growth import make_resize_patch
from muster.queueing.variants.decide import FamilyPlan, WorkloadChange, decide
from muster.queueing.variants.family import Family, flavors_of, has_quota, name_of, variant_of
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import ignores_status, key_of, make_reference, merge_patch
from muster.runtime.refusals import ignoring

WORKERS: Final = 8

_BY_PARENT: Final = "variants-parent"


class VariantController(Reconciler):
    """The reconciler of variants: Workloads that each try one flavor in place of their parent."""

    name = "concurrent-admission"

    def __init__(self, manager: Manager, recorder: Recorder) -> None:
        super().__init__(manager, workers=WORKERS)
        self._recorder = recorder
        indexes = {WORKLOADS_BY_LOCAL_QUEUE: by_local_queue, _BY_PARENT: _index_by_parent}
        self._workloads = manager.informer(WORKLOAD, indexes=indexes)
        self._local_queues = manager.informer(LOCAL_QUEUE, indexes={LOCAL_QUEUES_BY_CLUSTER_QUEUE: by_cluster_queue})
        self._queues = manager.informer(CLUSTER_QUEUE)
        self._controller.watch(self._workloads, _find_family_key)
        self._controller.watch(self._local_queues, self._find_queued, when=_has_new_queue)
        self._controller.watch(self._queues, self._find_concerned, when=_has_new_flavors)

    def _find_queued(self, queue: LocalQueue) -> Iterable[str]:
        workloads = self._workloads.by(WORKLOADS_BY_LOCAL_QUEUE, key_of(queue))
        return [key_of(one) for one in workloads if not is_variant(one)]

    def _find_concerned(self, queue: ClusterQueue) -> Iterable[str]:
        for local in self._local_queues.by(LOCAL_QUEUES_BY_CLUSTER_QUEUE, queue.metadata.name):
            yield from self._find_queued(local)

    # One reconcile of a parent and its variants.

    async def _reconcile(self, key: str) -> Result:
        parent = self._workloads.get(key)
        if parent is None or is_variant(parent):
            return None
        queue = self._find_queue(parent)
        if queue is not None and queue.metadata.deletion_timestamp is not None:
            return None
        if queue is None or queue.spec.concurrent_admission_policy is None:
            if is_parent(parent):
                await self._disband(parent)
            return None
        if not is_parent(parent):
            if has_quota(parent) or is_true(parent.status.conditions, FINISHED):
                return None  # the workload was admitted before its queue used variants
            with ignoring("NotFound"):
                parent = await self._client.patch_object(WORKLOAD, parent, _make_label_patch("true"))
        family = Family.of(parent, self._list_children(parent), queue.spec)
        plan = decide(family, now := self._clock.now())
        with ignoring("NotFound"):
            await self._write(family, plan)
        return None if plan.wake_at is None else max(0.0, (plan.wake_at - now).total_seconds())

    def _find_queue(self, workload: Workload) -> ClusterQueue | None:
        local = self._local_queues.get(f"{workload.metadata.namespace}/{workload.spec.queue_name}")
        name = local.spec.cluster_queue if local is not None else ""
        if (admission := workload.status.admission) is not None:
            name = admission.cluster_queue
        return self._queues.get(name)

    def _list_children(self, parent: Workload) -> list[Workload]:
        return list(self._workloads.by(_BY_PARENT, parent.metadata.uid))

    async def _disband(self, parent: Workload) -> None:
        """Delete the variants of a parent and make it an ordinary Workload again, unless it has quota.

        Its ClusterQueue has no variants any more, or is deleted.
        """
        if has_quota(parent):
            return
        for variant in self._list_children(parent):
            with ignoring("NotFound"):
                await self._client.delete_object(WORKLOAD, variant)
        with ignoring("NotFound"):
            await self._client.patch_object(WORKLOAD, parent, _make_label_patch(None))

    async def _write(self, family: Family, plan: FamilyPlan) -> None:
        parent = family.parent
        for flavor in plan.create:
            variant = variant_of(parent, flavor, family.flavors.index(flavor))
            with ignoring("AlreadyExists"):
                await self._client.create(WORKLOAD, variant)
                self._record_event(parent, "CreatedVariant", f'Variant Workload "{name_of(variant)}" created')
        for variant in plan.delete:
            with ignoring("NotFound"):
                await self._client.delete_object(WORKLOAD, variant)
                self._record_event(parent, "DeletedVariant", f'Variant Workload "{name_of(variant)}" deleted')
        for change in plan.changes:
            await self._write_change(change)
        if plan.opened is not None:
            message = f'Opened preemption gate for variant workload "{name_of(plan.opened)}"'
            self._record_event(plan.opened, "PreemptionUngatedVariant", message)

    async def _write_change(self, change: WorkloadChange) -> None:
        workload = change.workload
        patch: dict[str, Any] = {}
        if change.annotations:
            patch["metadata"] = {"annotations": dict(change.annotations)}
        sizes = make_resize_patch(workload.spec, change.spec) if change.spec is not None else []
        if sizes:
            workload = await self._client.edit_object(WORKLOAD, workload, sizes)
        elif change.spec is not None:
            patch["spec"] = merge_patch(change.spec, workload.spec)
        if patch:
            workload = await self._client.patch_object(WORKLOAD, workload, patch)
        if change.status is not None:
            old = change.workload.status
            conditions = stamp_generation(old.conditions, change.status.conditions, workload.metadata.generation)
            patch = {"status": merge_patch(replace(change.status, conditions=conditions), old)}
            await self._client.patch_object(WORKLOAD, workload, patch, subresource="status")
        if change.why and change.spec is not None:
            action = "activated" if change.spec.active else "deactivated"
            self._record_event(workload, f"{action.title()}Variant", f"Variant Workload {action} due to {change.why}")

    def _record_event(self, workload: Workload, reason: str, message: str) -> None:
        self._recorder.event(make_reference(WORKLOAD, workload), "Normal", reason, message)


def _make_label_patch(value: str | None) -> dict[str, object]:
    return {"metadata": {"labels": {PARENT_LABEL: value}}}


@ignores_status
def _index_by_parent(workload: Workload) -> tuple[str, ...]:
    owner = parent_of(workload.metadata)
    return () if owner is None else (owner.uid,)


def _find_family_key(workload: Workload) -> list[str]:
    owner = parent_of(workload.metadata)
    return [f"{workload.metadata.namespace}/{owner.name}" if owner is not None else key_of(workload)]


def _has_new_queue(old: LocalQueue | None, new: LocalQueue | None) -> bool:
    return old is None or new is None or old.spec.cluster_queue != new.spec.cluster_queue


def _has_new_flavors(old: ClusterQueue | None, new: ClusterQueue | None) -> bool:
    return old is None or new is None or flavors_of(old.spec) != flavors_of(new.spec)
