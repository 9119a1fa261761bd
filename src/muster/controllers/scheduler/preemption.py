"""Displaces gangs of lower priority for one that finds no room: `gang.order.preemption` decides, here it is written.

Victims go through the Eviction API, so that the server keeps budgets too, whatever was seen of them here. A Job's pods
that went so are no failures of the Job.
"""

import asyncio
from typing import Any

from muster.api.batch import TRACKING_FINALIZER, UNTRACK
from muster.api.core import POD, Pod
from muster.api.pods import is_finished
from muster.api.policy import POD_DISRUPTION_BUDGET
from muster.api.status import ApiError
from muster.controllers.scheduler.ask import Ask
from muster.controllers.scheduler.roster import Roster
from muster.controllers.scheduler.victims import Needs, Victims
from muster.gang.nodes.capacity import Ints
from muster.gang.order.preemption import Preemption, Protected
from muster.gang.placement import Refusal
from muster.runtime.client import Client
from muster.runtime.events.recorder import Recorder
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of, reference, split_key
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# Evictions under way for one gang.
_AT_ONCE = 16

# So often a pod is read again that is written by others all the time.
_TRIES = 5


class Preemptor:
    """Knows who could go, and lets them go."""

    def __init__(self, manager: Manager, recorder: Recorder, roster: Roster, needs: Needs, least: float) -> None:
        """`least`: for so many seconds all that has started is left alone."""
        self._client: Client = manager.client
        self._recorder = recorder
        self._roster = roster
        self._victims = Victims(roster, needs, least)
        self._budgets = manager.informer(POD_DISRUPTION_BUDGET, optional=True)

    def decide(self, ask: Ask, taken: Ints, now: float) -> Preemption | Protected | Refusal | None:
        """Who has to go so that these pods can start; None if they displace none. taken: see `Victims.decide`."""
        return self._victims.decide(ask, self._budgets.all(), taken, now)

    async def displace(self, ask: Ask, plan: Preemption) -> None:
        """Evict the victims. Raises `ApiError` (TooManyRequests) if a budget has meanwhile been used up."""
        limit = asyncio.Semaphore(_AT_ONCE)
        name = split_key(ask.key)[0] if ask.carrier is not None else key_of(ask.turn.pods[0])

        async def evict(pod: Pod) -> None:
            async with limit:
                await self._evict(pod, f"Preempted by {name} on node {pod.spec.node_name}")

        victims = [
            pod
            for key, uids in plan.victims.items()
            if (gang := self._roster.gangs.get(key)) is not None
            for uid in uids
            if (pod := gang.bound.get(uid)) is not None
        ]
        outcomes = await asyncio.gather(*map(evict, victims), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def nominate(self, ask: Ask, plan: Preemption) -> None:
        """Say on the pods where they will go."""
        for shape, nodes in plan.placement.nodes.items():
            names = (node for node, count in nodes for _ in range(count))
            pods = (pod for pod in ask.turn.pods if ask.shapes[pod.metadata.uid] == shape)
            for pod, node in zip(pods, names, strict=False):
                if pod.status.nominated_node_name != node:
                    patch = {"status": {"nominatedNodeName": node}}
                    with ignoring("NotFound", "Conflict"):
                        await self._client.patch_object(POD, pod, patch, lock=False, subresource="status")

    async def _evict(self, pod: Pod, message: str) -> None:
        """Evict a pod, unless it has ended meanwhile."""
        with ignoring("NotFound"):
            if not await self._untrack(pod):
                return
            try:
                await self._client.post(POD, pod.metadata.name, pod.metadata.namespace, "eviction", _eviction(pod))
            except ApiError:  # a budget has been used up since it was looked at: the pod stays, and counts
                await self._patch(pod, {"metadata": {"finalizers": list(pod.metadata.finalizers)}})
                raise
            self._recorder.event(reference(POD, pod), "Normal", "Preempted", message)
            target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            await self._patch(pod, {"status": {"conditions": [target | {"message": message}]}}, "status")

    async def _untrack(self, pod: Pod) -> bool:
        """Take the finalizer of its Job from a pod, so that it goes uncounted; False if it has ended, and counts."""
        for _ in range(_TRIES):
            found = await self._client.find(POD, pod.metadata.name, pod.metadata.namespace)
            if found is None or found.metadata.uid != pod.metadata.uid or is_finished(found):
                return False
            if TRACKING_FINALIZER not in found.metadata.finalizers:
                return True
            with ignoring("Conflict"):  # it was written meanwhile: perhaps it has ended
                await self._client.patch_object(POD, found, {"metadata": UNTRACK}, type=STRATEGIC_MERGE_PATCH)
                return True
        return True  # one failure more of the Job's does less harm than half a gang that stays

    async def _patch(self, pod: Pod, patch: dict[str, Any], subresource: str = "") -> None:
        with ignoring("NotFound", "Conflict"):
            await self._client.patch_object(
                POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource=subresource
            )


def _eviction(pod: Pod) -> dict[str, Any]:
    meta = pod.metadata
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "deleteOptions": {"preconditions": {"uid": meta.uid}},
    }
