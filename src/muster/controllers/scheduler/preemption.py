"""Displaces gangs of lower priority for one that finds no room: `gang.order.preemption` decides, here it is written.

Victims go through the Eviction API, so that the server keeps budgets too, whatever was seen of them here. A Job's pods
that went so are no failures of the Job.

Before the first of a plan is evicted all are marked, so that a scheduler that comes back finishes what was begun: half
a gang is of no use. Gangs of which none has gone yet are spared when the one for which they were to go no longer waits
for it, or has others go.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from muster.api.batch import TRACKING_FINALIZER, UNTRACK
from muster.api.core import POD, Pod
from muster.api.groups.policy import POD_DISRUPTION_BUDGET
from muster.api.pods import is_deleting, is_finished, job_reference
from muster.api.status import ApiError
from muster.controllers.scheduler.ask import Ask
from muster.controllers.scheduler.roster import Roster
from muster.controllers.scheduler.victims import Needs, Victims
from muster.gang.nodes.capacity import Ints
from muster.gang.order.preemption import Preemption, Protected
from muster.gang.placement import Placement, Refusal
from muster.runtime.client import Client
from muster.runtime.events.recorder import Recorder
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of, reference, split_key
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# On a pod: for whom it goes, from before the first of the gangs that go is evicted.
PREEMPTED_ANNOTATION = "muster.dev/preempted-by"

# Evictions under way for one gang.
AT_ONCE = 16

# So often a pod is read again that is written by others all the time.
_TRIES = 5


class _Victim(Struct, frozen=True):
    """A pod that is to go. gang: its own. by: the gang for which it goes, "" if that is no longer known."""

    gang: str
    pod: Pod
    by: str
    message: str


class Preemptor:
    """Knows who could go, and lets them go."""

    def __init__(self, manager: Manager, recorder: Recorder, roster: Roster, needs: Needs, least: float) -> None:
        """`least`: for so many seconds all that has started is left alone."""
        self._client: Client = manager.client
        self._recorder = recorder
        self._roster = roster
        self._victims = Victims(roster, needs, least)
        self._told: dict[str, _Victim] = {}  # victims that have yet to be evicted, by UID
        self._spared: dict[str, _Victim] = {}  # those that may stay after all, and are perhaps marked
        self._begun = Counter[str]()  # how many of a gang were evicted, or are about to be
        self._budgets = manager.informer(POD_DISRUPTION_BUDGET, optional=True)

    def decide(self, ask: Ask, taken: Ints, now: float) -> Preemption | Protected | Refusal | None:
        """Who has to go so that these pods can start; None if they displace none. taken: see `Victims.decide`."""
        return self._victims.decide(ask, self._budgets.all(), taken, now)

    def protected_until(self, ask: Ask, now: float) -> float | None:
        """See `Victims.protected_until`."""
        return self._victims.protected_until(ask, now)

    def resume(self) -> bool:
        """Go on with what a predecessor began. Whether there is anything."""
        for key, gang in self._roster.gangs.items():
            if marked := [pod for pod in gang.bound.values() if PREEMPTED_ANNOTATION in pod.metadata.annotations]:
                message = marked[0].metadata.annotations[PREEMPTED_ANNOTATION]
                for pod in self._victims.with_rest(key, gang, marked):
                    self._told[pod.metadata.uid] = _Victim(key, pod, "", message)
        return bool(self._told)

    def gone_by(self, plan: Preemption, now: float) -> float:
        """See `Victims.gone_by`."""
        return self._victims.gone_by(plan, now)

    def displace(self, ask: Ask, plan: Preemption) -> int:
        """From now on the victims are on their way out: `evict` tells them. How many there are."""
        self.spare(ask.key)
        name = split_key(ask.key)[0] if ask.carrier is not None else key_of(ask.turn.pods[0])
        for key, uids in plan.victims.items():
            bound = self._roster.gangs[key].bound
            for uid in uids:
                message = f"Preempted by {name} on node {bound[uid].spec.node_name}"
                self._told[uid] = _Victim(key, bound[uid], ask.key, message)
                self._spared.pop(uid, None)
        return sum(map(len, plan.victims.values()))

    def spare(self, by: str) -> bool:
        """A gang needs none to go any more: those stay of whose gangs none has gone. Whether `evict` has to say so."""
        for uid, victim in list(self._told.items()):
            if victim.by == by and not self._begun[victim.gang]:
                self._spared[uid] = self._told.pop(uid)
        return bool(self._spared)

    async def evict(self) -> None:
        """Evict the victims. Raises the first error once all have been asked; those that failed are asked again."""
        told = dict(self._told)
        await _each(self._spared, self._unmark)
        await _each(told, self._mark)
        await _each(told, self._evict)
        self._begun &= Counter({victim.gang: self._begun[victim.gang] for victim in self._told.values()})

    async def nominate(self, ask: Ask, placement: Placement | None) -> None:
        """Say on the pods where they will go; None: that it is not known any more."""
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

    async def _unmark(self, uid: str, victim: _Victim) -> None:
        if uid in self._spared:
            await self._count(uid, victim.pod, {PREEMPTED_ANNOTATION: None})
            self._spared.pop(uid, None)

    async def _count(self, uid: str, pod: Pod, annotations: Mapping[str, None]) -> None:
        """Give a marked pod its Job's finalizer back, so that it counts; one that is not marked may have been counted.

        Raises `ApiError` (Conflict).
        """
        with ignoring("NotFound"):
            found = await self._client.get(POD, pod.metadata.name, pod.metadata.namespace)
            if found.metadata.uid != uid or PREEMPTED_ANNOTATION not in found.metadata.annotations:
                return
            tracked = job_reference(found) is not None and not is_deleting(found)
            patch = {"annotations": annotations} | ({"finalizers": [TRACKING_FINALIZER]} if tracked else {})
            await self._client.patch_object(POD, found, {"metadata": patch}, type=STRATEGIC_MERGE_PATCH)

    async def _mark(self, uid: str, victim: _Victim) -> None:
        """Say on a pod that it goes, and take its Job's finalizer from it, so that it goes uncounted.

        One that has ended counts, and does not go.
        """
        pod, said = victim.pod, {PREEMPTED_ANNOTATION: victim.message}
        for _ in range(_TRIES):
            found = await self._client.find(POD, pod.metadata.name, pod.metadata.namespace)
            if found is None or found.metadata.uid != uid or is_finished(found):
                self._told.pop(uid, None)
                return
            marked = PREEMPTED_ANNOTATION in found.metadata.annotations
            if marked and TRACKING_FINALIZER not in found.metadata.finalizers:
                return
            with ignoring("Conflict"):  # it was written meanwhile: perhaps it has ended
                patch = {"metadata": UNTRACK | {"annotations": said}}
                await self._client.patch_object(POD, found, patch, type=STRATEGIC_MERGE_PATCH)
                return
        # One failure more of the Job's does less harm than half a gang that stays.
        await self._patch(pod, {"metadata": {"annotations": said}})

    async def _evict(self, uid: str, victim: _Victim) -> None:
        """Evict a pod that is marked, unless it may stay by now."""
        if uid not in self._told:
            return
        pod = victim.pod
        self._begun[victim.gang] += 1
        with ignoring("NotFound"):
            try:
                await self._client.post(POD, pod.metadata.name, pod.metadata.namespace, "eviction", _eviction(pod))
            except ApiError:  # a budget has been used up since it was looked at: the pod stays for now, and counts
                self._begun[victim.gang] -= 1
                await self._count(uid, pod, {})
                raise
            self._recorder.event(reference(POD, pod), "Normal", "Preempted", victim.message)
            target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            await self._patch(pod, {"status": {"conditions": [target | {"message": victim.message}]}}, "status")
        self._told.pop(uid, None)

    async def _patch(self, pod: Pod, patch: dict[str, Any], subresource: str = "") -> None:
        with ignoring("NotFound", "Conflict"):
            await self._client.patch_object(
                POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource=subresource
            )


async def _each(victims: Mapping[str, _Victim], act: Callable[[str, _Victim], Awaitable[None]]) -> None:
    """Do it to all, some at a time. Raises the first error once all have been tried."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(uid: str, victim: _Victim) -> None:
        async with limit:
            await act(uid, victim)

    outcomes = await asyncio.gather(*(one(*item) for item in victims.items()), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


def _eviction(pod: Pod) -> dict[str, Any]:
    meta = pod.metadata
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "deleteOptions": {"preconditions": {"uid": meta.uid}},
    }
