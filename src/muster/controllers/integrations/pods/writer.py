"""Write to pods that queue. Each write is idempotent, and applies only to the pod that the decision read."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from muster.api.core import POD, Pod, PodSchedulingGate
from muster.api.kueue import Workload
from muster.api.kueue.names import ADMISSION_GATE, MANAGED_FINALIZER, TOPOLOGY_GATE
from muster.api.managed.pods import is_held
from muster.api.pods import is_deleting
from muster.controllers.integrations.injection import merge_tolerations
from muster.controllers.integrations.pods.groups import TERMINATION_TARGET, was_told
from muster.controllers.waits import GateWaits
from muster.queueing.jobframework.observedjob import PodSetInfo
from muster.queueing.jobframework.pairing import CANNOT_RESTORE, NO_MATCH, NOT_ADMITTED, WORKLOAD_DELETED
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import make_reference
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

WRITES_AT_ONCE = 64  # concurrent writes for one group

# The reason of the pod's condition (upstream StopReason), by the plan's reason; any other reason is an eviction.
_REASONS = {
    WORKLOAD_DELETED: "WorkloadDeleted",
    NOT_ADMITTED: "NotAdmitted",
    NO_MATCH: "NoMatchingWorkload",
    CANNOT_RESTORE: "NoMatchingWorkload",
}


class PodWriter:
    """The writer that starts, stops and deletes pods. It ignores deleted pods. Raises `ApiError`."""

    def __init__(self, client: Client, clock: Clock, recorder: Recorder, gates: GateWaits) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._gates = gates

    async def start_pods(
        self, pods: Sequence[Pod], workload: Workload, infos: Mapping[str, PodSetInfo], why: str
    ) -> None:
        """Remove the gates of pods, so that they may be bound, and inject values.

        infos: the values to inject, by the UID of the pod.
        why: the message of the event.
        """

        async def start_one(pod: Pod) -> None:
            with ignoring("NotFound"):
                await self._client.patch_object(POD, pod, make_opening_patch(pod, infos[pod.metadata.uid]))
                if is_held(pod):
                    self._gates.observe_removal(ADMISSION_GATE, pod, workload)
                    self._record_event(pod, "Started", why)

        await _call_for_each(start_one, pods)

    async def stop_pods(self, pods: Sequence[Pod], why: str, evicted: str = "") -> None:
        """Delete pods, after writing a condition with the reason to their status.

        why: the reason as a sentence, for the condition and an event.
        evicted: the reason of the eviction if the pods' Workload was evicted; otherwise "".
        """
        moment = self._clock.now().replace(microsecond=0)
        reason = f"WorkloadEvictedDueTo{evicted}" if evicted else _REASONS.get(why, "WorkloadEvicted")
        condition = {
            "type": TERMINATION_TARGET,
            "status": "True",
            "reason": reason,
            "message": why,
            "lastTransitionTime": moment,
        }

        async def end_one(pod: Pod) -> None:
            # The pod must be deleted even if it has changed since it was read.
            patch = {"status": {"conditions": [condition]}}
            if was_told(pod) or await self._merge(pod, patch, subresource="status"):
                await self._delete(pod)
                self._record_event(pod, "Stopped", why)

        await _call_for_each(end_one, pods)

    async def delete_excess(self, pods: Sequence[Pod]) -> None:
        """Delete pods that have no place in their group, after removing their finalizers, and record events."""

        async def delete_one(pod: Pod) -> None:
            await self._remove_finalizer(pod)
            if not is_deleting(pod):
                await self._delete(pod)
                self._record_event(pod, "ExcessPodDeleted", "Excess pod deleted")

        await _call_for_each(delete_one, pods)

    async def remove_finalizers(self, pods: Sequence[Pod]) -> None:
        """Remove Muster's finalizer from each pod, so that the server can remove deleted pods."""
        await _call_for_each(self._remove_finalizer, pods)

    async def _remove_finalizer(self, pod: Pod) -> None:
        """Remove Muster's finalizer from a pod."""
        if MANAGED_FINALIZER in pod.metadata.finalizers:
            await self._merge(pod, {"metadata": {"$deleteFromPrimitiveList/finalizers": [MANAGED_FINALIZER]}})

    async def _merge(self, pod: Pod, patch: dict[str, Any], subresource: str = "") -> bool:
        """Patch a pod, whatever its resourceVersion; return whether the pod still exists."""
        with ignoring("NotFound"):
            await self._client.patch_object(
                POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource=subresource
            )
            return True
        return False

    async def _delete(self, pod: Pod) -> None:
        with ignoring("NotFound", "Conflict"):  # the pod is gone, and another may have its name
            await self._client.delete_object(POD, pod)

    def _record_event(self, pod: Pod, reason: str, message: str) -> None:
        self._recorder.event(make_reference(POD, pod), "Normal", reason, message)


def gates_left(pod: Pod, info: PodSetInfo) -> tuple[PodSchedulingGate, ...]:
    """Return the gates that a pod of an admitted workload keeps: the gates of other programs, and those in `info`.

    Kueue's webhook sets the topology gate on every pod that queues. The gate is kept only while the pod's domain is
    unknown.
    """
    ours = {ADMISSION_GATE, TOPOLOGY_GATE} - set(info.gates)
    return tuple(gate for gate in pod.spec.scheduling_gates if gate.name not in ours)


def make_opening_patch(pod: Pod, info: PodSetInfo) -> dict[str, Any]:
    """Return the patch that removes Kueue's gates from a pod, except the gates in `info`.

    If the admission gate still holds the pod, the patch also sets the labels, annotations, node selector and
    tolerations of `info`.
    """
    gates = gates_left(pod, info)
    if not is_held(pod):
        return {"spec": {"schedulingGates": gates or None}}
    return {
        "metadata": {"labels": dict(info.labels), "annotations": dict(info.annotations)},
        "spec": {
            "schedulingGates": gates or None,
            "nodeSelector": dict(info.node_selector),
            "tolerations": list(merge_tolerations(pod.spec.tolerations, info.tolerations)),
        },
    }


async def _call_for_each(act: Callable[[Pod], Awaitable[None]], pods: Sequence[Pod]) -> None:
    """Call `act` for each pod, some of them concurrently. Raises the first error, after all calls have ended."""
    limit = asyncio.Semaphore(WRITES_AT_ONCE)

    async def one(pod: Pod) -> None:
        async with limit:
            await act(pod)

    for outcome in await asyncio.gather(*map(one, pods), return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
