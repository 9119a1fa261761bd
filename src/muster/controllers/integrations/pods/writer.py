"""Writes about pods that queue. Each is idempotent, and made only about the very pod that it was decided on."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from muster.api.core import POD, Pod
from muster.api.kueue import Workload
from muster.api.kueue.names import ADMISSION_GATE, MANAGED_FINALIZER
from muster.api.pods import is_deleting
from muster.controllers.integrations.injection import tolerations
from muster.controllers.integrations.pods.groups import TERMINATION_TARGET, was_told
from muster.controllers.waits import GateWaits
from muster.queueing.jobframework.observed import PodSetInfo
from muster.queueing.jobframework.pairing import CANNOT_RESTORE, NO_MATCH, NOT_ADMITTED, WORKLOAD_DELETED
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import reference
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

WRITES_AT_ONCE = 64  # of one group

# Why pods are told to end (upstream StopReason), by what the plan says; everything else is an eviction.
_REASONS = {
    WORKLOAD_DELETED: "WorkloadDeleted",
    NOT_ADMITTED: "NotAdmitted",
    NO_MATCH: "NoMatchingWorkload",
    CANNOT_RESTORE: "NoMatchingWorkload",
}


class PodWriter:
    """Starts, ends and releases pods; pods that are gone are fine. Raises `ApiError`."""

    def __init__(self, client: Client, clock: Clock, recorder: Recorder, gates: GateWaits) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._gates = gates

    async def start(self, pods: Sequence[Pod], workload: Workload, infos: Mapping[str, PodSetInfo], why: str) -> None:
        """Open the gates: they may go to nodes, with what is injected, by UID."""

        async def start_one(pod: Pod) -> None:
            with ignoring("NotFound"):
                await self._client.patch_object(POD, pod, opened(pod, infos[pod.metadata.uid]))
                self._gates.removed(ADMISSION_GATE, pod, workload)
                self._tell(pod, "Started", why)

        await _each(start_one, pods)

    async def end(self, pods: Sequence[Pod], why: str, evicted: str = "") -> None:
        """Tell pods to end, in their status and by deleting them. evicted: the reason, if their Workload was."""
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
            # Whatever it has done meanwhile, it has to end.
            patch = {"status": {"conditions": [condition]}}
            if was_told(pod) or await self._merge(pod, patch, subresource="status"):
                await self._delete(pod)
                self._tell(pod, "Stopped", why)

        await _each(end_one, pods)

    async def send_away(self, pods: Sequence[Pod]) -> None:
        """Delete pods for which there is no place."""

        async def send_one_away(pod: Pod) -> None:
            await self._let_go(pod)
            if not is_deleting(pod):
                await self._delete(pod)
                self._tell(pod, "ExcessPodDeleted", "Excess pod deleted")

        await _each(send_one_away, pods)

    async def release(self, pods: Sequence[Pod]) -> None:
        """Hold pods no longer: those that are deleted may go."""
        await _each(self._let_go, pods)

    async def _let_go(self, pod: Pod) -> None:
        """Remove our finalizer."""
        if MANAGED_FINALIZER in pod.metadata.finalizers:
            await self._merge(pod, {"metadata": {"$deleteFromPrimitiveList/finalizers": [MANAGED_FINALIZER]}})

    async def _merge(self, pod: Pod, patch: dict[str, Any], subresource: str = "") -> bool:
        """Change the pod, whatever it has become; whether it was there."""
        with ignoring("NotFound"):
            await self._client.patch_object(
                POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource=subresource
            )
            return True
        return False

    async def _delete(self, pod: Pod) -> None:
        with ignoring("NotFound", "Conflict"):  # it is gone, and another may have its name
            await self._client.delete_object(POD, pod)

    def _tell(self, pod: Pod, reason: str, message: str) -> None:
        self._recorder.event(reference(POD, pod), "Normal", reason, message)


def opened(pod: Pod, info: PodSetInfo) -> dict[str, Any]:
    """The patch that lets a pod go to nodes, with what was injected."""
    gates = [gate for gate in pod.spec.scheduling_gates if gate.name != ADMISSION_GATE]
    return {
        "metadata": {"labels": dict(info.labels), "annotations": dict(info.annotations)},
        "spec": {
            "schedulingGates": gates or None,
            "nodeSelector": dict(info.node_selector),
            "tolerations": list(tolerations(pod.spec.tolerations, info.tolerations)),
        },
    }


async def _each(act: Callable[[Pod], Awaitable[None]], pods: Sequence[Pod]) -> None:
    """For all of them, some side by side; the first that fails is told once all have been tried."""
    limit = asyncio.Semaphore(WRITES_AT_ONCE)

    async def one(pod: Pod) -> None:
        async with limit:
            await act(pod)

    for outcome in await asyncio.gather(*map(one, pods), return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
