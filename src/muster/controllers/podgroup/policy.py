"""Apply the policies of scheduler KEP-34's PodGroups with too few running pods, and record when a group is complete."""

import asyncio
from collections.abc import Iterable

from muster.api.batch import TRACKING_FINALIZER
from muster.api.core import POD, Pod
from muster.api.podgroups import kep
from muster.api.pods import is_active
from muster.controllers.podgroup.gang import PodGroups
from muster.jobs.interruption import make_withdrawal_patch
from muster.jobs.podgroup.policy import GroupStep, decide
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import ignores_status, make_reference, merge_patch
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

_BY_GROUP = "pod-group-of-policy"
_DELETIONS_AT_ONCE = 20

# The pods of a restarting group change one by one. All changes within this time cause one reconcile.
GATHER_SECONDS = 0.1


class PodGroupPolicyController(Reconciler):
    """The reconciler of PodGroups' policies. Its keys are the keys of gangs in the scheduler.

    A group without a policy is left to the program that created it. For such a group, this controller records only when
    the group is complete, and only if the group has quota to release.
    """

    name = "podgroup-policy"

    def __init__(self, manager: Manager, recorder: Recorder, gangs: PodGroups) -> None:
        super().__init__(manager)
        self._recorder = recorder
        self._gangs = gangs  # knows the key of each group
        self._deletions = asyncio.Semaphore(_DELETIONS_AT_ONCE)
        self._pods = manager.informer(POD, indexes={_BY_GROUP: self._index_by_group})
        self._groups = manager.informer(kep.POD_GROUP, indexes={_BY_GROUP: self._list_own_key}, optional=True)
        self._controller.watch(self._pods, self._index_by_group, when=_matters, gather=GATHER_SECONDS)
        self._controller.watch(self._groups, self._list_own_key)

    @ignores_status
    def _index_by_group(self, pod: Pod) -> Iterable[str]:
        key = self._gangs.key(pod)
        return (key,) if key else ()

    def _list_own_key(self, group: kep.PodGroup) -> Iterable[str]:
        return (self._gangs.key_of(group),)

    async def _reconcile(self, key: str) -> Result:
        for group in self._groups.by(_BY_GROUP, key):
            if group.spec.policy is None and not group.spec.total_resources:
                return None
            step = decide(group, self._pods.by(_BY_GROUP, key), self._clock.now())
            if step.status != group.status:
                await self._write(group, step)
            else:
                await asyncio.gather(*(self._end(pod, blameless=step.blameless) for pod in step.end))
            return step.again.total_seconds() if step.again is not None else None
        return None

    async def _write(self, group: kep.PodGroup, step: GroupStep) -> None:
        patch = {"status": merge_patch(step.status, group.status)}
        with ignoring("NotFound", "Conflict"):  # the group was deleted or changed, which causes another reconcile
            await self._client.patch_object(kep.POD_GROUP, group, patch, subresource="status")
            if step.note is not None:
                note = step.note
                self._recorder.event(make_reference(kep.POD_GROUP, group), note.type, note.reason, note.message)

    async def _end(self, pod: Pod, *, blameless: bool) -> None:
        async with self._deletions:
            with ignoring("NotFound", "Conflict"):  # the pod was deleted, or another pod has its name
                if blameless and is_active(pod) and TRACKING_FINALIZER in pod.metadata.finalizers:
                    patch = {"metadata": make_withdrawal_patch(pod)}
                    await self._client.patch_object(POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH)
                await self._client.delete_object(POD, pod)


def _matters(old: Pod | None, new: Pod | None) -> bool:
    """Return whether a change of a pod may change what the policy of its group requires.

    A pod that is new (`old` is None) or deleted (`new` is None) always matters.
    """
    return old is None or new is None or _extract_counted_fields(old) != _extract_counted_fields(new)


def _extract_counted_fields(pod: Pod) -> object:
    meta = pod.metadata
    return pod.status.phase, bool(pod.spec.node_name), meta.deletion_timestamp, meta.annotations, meta.labels
