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
AT_ONCE = 16

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
        self._told: dict[str, tuple[Pod, str]] = {}  # victims that have yet to be evicted, and why they are, by UID
        self._budgets = manager.informer(POD_DISRUPTION_BUDGET, optional=True)

    def decide(self, ask: Ask, taken: Ints, now: float) -> Preemption | Protected | Refusal | None:
        """Who has to go so that these pods can start; None if they displace none. taken: see `Victims.decide`."""
        return self._victims.decide(ask, self._budgets.all(), taken, now)

    def protected_until(self, ask: Ask, now: float) -> float | None:
        """See `Victims.protected_until`."""
        return self._victims.protected_until(ask, now)

    def displace(self, ask: Ask, plan: Preemption) -> int:
        """From now on the victims are on their way out: `evict` tells them. How many there are."""
        name = split_key(ask.key)[0] if ask.carrier is not None else key_of(ask.turn.pods[0])
        for key, uids in plan.victims.items():
            bound = self._roster.gangs[key].bound
            for uid in uids:
                self._told[uid] = bound[uid], f"Preempted by {name} on node {bound[uid].spec.node_name}"
        return sum(map(len, plan.victims.values()))

    async def evict(self) -> None:
        """Evict the victims. Raises the first error once all have been asked; those that failed are asked again."""
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(uid: str, pod: Pod, message: str) -> None:
            async with limit:
                await self._evict(pod, message)
                self._told.pop(uid, None)

        told = [one(uid, pod, message) for uid, (pod, message) in self._told.items()]
        outcomes = await asyncio.gather(*told, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def nominate(self, ask: Ask, plan: Preemption) -> None:
        """Say on the pods where they will go."""
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(pod: Pod, node: str) -> None:
            async with limit:
                await self._patch(pod, {"status": {"nominatedNodeName": node}}, "status")

        named = []
        for shape, nodes in plan.placement.nodes.items():
            names = (node for node, count in nodes for _ in range(count))
            pods = (pod for pod in ask.turn.pods if ask.shapes[pod.metadata.uid] == shape)
            for pod, node in zip(pods, names, strict=False):
                if pod.status.nominated_node_name != node:
                    named.append(one(pod, node))
        await asyncio.gather(*named)

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
