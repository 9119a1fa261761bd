"""Evict the pods that were chosen as victims, and nominate nodes to the gang that gets their room.

Victims are evicted through the Eviction API, so that the server enforces budgets, even if the cache is stale. The API
marks each victim with the condition DisruptionTarget, so that Muster's Job controller does not count the pod as failed
(`muster.jobs.interruption`). Other Job controllers would count it, so a victim first loses its tracking finalizer.

Before the first victim of a plan is evicted, all victims are marked by an annotation, so that a restarted scheduler
finishes the plan: half a gang is of no use. If the preempting gang no longer waits, or chooses other victims, gangs
that have not lost a pod yet are spared.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from muster.api.batch import TRACKING_FINALIZER, UNTRACK
from muster.api.core import POD, Pod
from muster.api.ours.interruptions import PREEMPTED_ANNOTATION
from muster.api.pods import is_deleting, is_finished, job_reference
from muster.api.status import ApiError
from muster.controllers.scheduler.ask import GangTurn
from muster.controllers.scheduler.state import Displaced, VictimPod
from muster.gang.placement import Placement
from muster.runtime.client import Client
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import make_reference
from muster.runtime.refusals import ignoring, is_refusal
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# The maximum number of concurrent evictions for one gang.
AT_ONCE = 16

# The maximum number of times that a pod is read again after conflicts.
_TRIES = 5


class Evictor:
    """The writer of evictions, and of nodes nominated to preempting gangs.

    runs_jobs: see `Scheduler`.
    """

    def __init__(self, client: Client, recorder: Recorder, displaced: Displaced, *, runs_jobs: bool) -> None:
        self._client = client
        self._recorder = recorder
        self._displaced = displaced
        self._runs_jobs = runs_jobs

    async def evict(self) -> None:
        """Evict the chosen victims, and remove the marks of spared ones.

        Try all of them, then raise the first error. The next call retries failed evictions.
        """
        victims = dict(self._displaced.chosen)
        await _apply_to_all(self._displaced.spared, self._unmark)
        await _apply_to_all(victims, self._mark)
        await _apply_to_all(victims, self._evict)
        self._displaced.forget_evicted()

    async def nominate(self, ask: GangTurn, placement: Placement | None) -> None:
        """Write `status.nominatedNodeName` of the pods from a placement; None clears the field."""
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(pod: Pod, node: str) -> None:
            async with limit:
                await self._patch(pod, {"status": {"nominatedNodeName": node or None}}, "status")

        if placement is None:
            await asyncio.gather(*(one(pod, "") for pod in ask.turn.pods if pod.status.nominated_node_name))
            return
        named = []
        for shape, nodes in placement.nodes.items():
            names = (node for node, count in nodes for _ in range(count))
            pods = (pod for pod in ask.turn.pods if ask.shapes[pod.metadata.uid] == shape)
            for pod, node in zip(pods, names, strict=False):
                if pod.status.nominated_node_name != node:
                    named.append(one(pod, node))
        await asyncio.gather(*named)

    async def _unmark(self, uid: str, victim: VictimPod) -> None:
        if uid in self._displaced.spared:
            await self._restore_finalizer(uid, victim.pod, {PREEMPTED_ANNOTATION: None})
            self._displaced.spared.pop(uid, None)

    async def _restore_finalizer(self, uid: str, pod: Pod, annotations: Mapping[str, None]) -> None:
        """Restore the Job-tracking finalizer of a marked pod, so that the pod's Job counts the pod again.

        Leave a pod without the mark unchanged, because its Job may have counted it already.

        annotations: the annotations to patch in the same write.

        Raises `ApiError` (Conflict).
        """
        with ignoring("NotFound"):
            current = await self._client.get(POD, pod.metadata.name, pod.metadata.namespace)
            if current.metadata.uid != uid or PREEMPTED_ANNOTATION not in current.metadata.annotations:
                return
            tracked = not self._runs_jobs and job_reference(current) is not None and not is_deleting(current)
            patch = {"annotations": annotations} | ({"finalizers": [TRACKING_FINALIZER]} if tracked else {})
            await self._client.patch_object(POD, current, {"metadata": patch}, type=STRATEGIC_MERGE_PATCH)

    async def _mark(self, uid: str, victim: VictimPod) -> None:
        """Annotate a pod as a victim, and remove its tracking finalizer if another controller runs Jobs.

        If the pod has ended or is gone, drop the victim instead.
        """
        pod, annotations = victim.pod, {PREEMPTED_ANNOTATION: victim.message}
        uncounted = {} if self._runs_jobs else UNTRACK
        for _ in range(_TRIES):
            current = await self._client.find(POD, pod.metadata.name, pod.metadata.namespace)
            if current is None or current.metadata.uid != uid or is_finished(current):
                self._displaced.chosen.pop(uid, None)
                return
            marked = PREEMPTED_ANNOTATION in current.metadata.annotations
            if marked and (self._runs_jobs or TRACKING_FINALIZER not in current.metadata.finalizers):
                return
            with ignoring("Conflict"):  # the pod has changed since it was read, and may have ended
                patch = {"metadata": uncounted | {"annotations": annotations}}
                await self._client.patch_object(POD, current, patch, type=STRATEGIC_MERGE_PATCH)
                return
        # One failure too many in the Job's count does less harm than half a gang that stays.
        await self._patch(pod, {"metadata": {"annotations": annotations}})

    async def _evict(self, uid: str, victim: VictimPod) -> None:
        """Evict a marked pod, unless it was spared since. Raises `ApiError`, with the pod's finalizer restored."""
        if uid not in self._displaced.chosen:
            return
        pod = victim.pod
        self._displaced.begun[victim.gang] += 1
        with ignoring("NotFound"):
            try:
                await self._client.post(POD, pod.metadata.name, pod.metadata.namespace, "eviction", make_eviction(pod))
            except ApiError as error:
                # A disruption budget was used up in the meantime, so the pod stays for now, and counts. Its mark is
                # removed, because its Job creates no replacements while a pod is marked, and the budget may depend on
                # replacements.
                self._displaced.begun[victim.gang] -= 1
                if is_refusal(error, "TooManyRequests"):
                    await self._restore_finalizer(uid, pod, {PREEMPTED_ANNOTATION: None})
                elif not self._runs_jobs:
                    await self._restore_finalizer(uid, pod, {})
                raise
            self._recorder.event(make_reference(POD, pod), "Normal", "Preempted", victim.message)
            target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            await self._patch(pod, {"status": {"conditions": [target | {"message": victim.message}]}}, "status")
        self._displaced.chosen.pop(uid, None)

    async def _patch(self, pod: Pod, patch: dict[str, Any], subresource: str = "") -> None:
        with ignoring("NotFound", "Conflict"):
            await self._client.patch_object(
                POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource=subresource
            )


async def _apply_to_all(victims: Mapping[str, VictimPod], act: Callable[[str, VictimPod], Awaitable[None]]) -> None:
    """Apply `act` to all victims, some concurrently. Raises the first error after all were tried."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(uid: str, victim: VictimPod) -> None:
        async with limit:
            await act(uid, victim)

    outcomes = await asyncio.gather(*(one(*item) for item in victims.items()), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


def make_eviction(pod: Pod) -> dict[str, Any]:
    """Return the Eviction of exactly this pod, by UID, and not of a later pod with its name."""
    meta = pod.metadata
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "deleteOptions": {"preconditions": {"uid": meta.uid}},
    }
