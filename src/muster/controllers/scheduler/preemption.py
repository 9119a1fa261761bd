"""Evicts gangs of lower priority for a gang that finds no room, as `gang.order.preemption` decides.

Victims are evicted through the Eviction API, so that the server enforces budgets, whatever was observed here. The API
marks each victim as the target of a disruption, so that no Job of Muster's counts it as a failure
(`muster.jobs.interruption`). Other Job controllers would count it, so a victim first loses its tracking finalizer.

Before the first victim of a plan is evicted all are marked, so that a scheduler that restarts finishes the plan,
because half a gang is of no use. Gangs of which no pod has gone yet are spared when the preempting gang no longer waits
for them, or has chosen other victims.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from muster.api.batch import TRACKING_FINALIZER, UNTRACK
from muster.api.core import POD, Pod
from muster.api.groups.policy import POD_DISRUPTION_BUDGET
from muster.api.ours.interruptions import PREEMPTED_ANNOTATION
from muster.api.pods import is_deleting, is_finished, job_reference
from muster.api.status import ApiError
from muster.controllers.gangs import is_preempted
from muster.controllers.scheduler.ask import Ask
from muster.controllers.scheduler.roster import Roster
from muster.controllers.scheduler.victims import Needs, Victims
from muster.gang.arrays import Ints
from muster.gang.order.preemption import Preemption, Protected
from muster.gang.placement import Placement, Refusal
from muster.runtime.client import Client
from muster.runtime.events.recorder import Recorder
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of, reference, split_key
from muster.runtime.refusals import ignoring, is_refusal
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# The most concurrent evictions for one gang.
AT_ONCE = 16

# How often a pod is read again after conflicts.
_TRIES = 5


class _Victim(Struct, frozen=True):
    """A pod to be evicted. gang: its own gang. by: the gang for which it is evicted; "" if that is no longer known."""

    gang: str
    pod: Pod
    by: str
    message: str


class Preemptor:
    """A chooser and evictor of victims."""

    def __init__(
        self, manager: Manager, recorder: Recorder, roster: Roster, needs: Needs, least: float, *, runs_jobs: bool
    ) -> None:
        """Start without victims. `least`: the seconds that every pod runs undisturbed. runs_jobs: see `Scheduler`."""
        self._runs_jobs = runs_jobs
        self._client: Client = manager.client
        self._recorder = recorder
        self._roster = roster
        self._victims = Victims(roster, needs, least)
        self._told: dict[str, _Victim] = {}  # victims still to be evicted, by UID
        self._spared: dict[str, _Victim] = {}  # victims that may stay after all, and may be marked
        self._begun = Counter[str]()  # the number of pods of each gang that were evicted, or are about to be
        self._budgets = manager.informer(POD_DISRUPTION_BUDGET, optional=True)

    def decide(
        self, ask: Ask, taken: Ints, now: float, broken: Sequence[str] = ()
    ) -> Preemption | Protected | Refusal | None:
        """Return the victims that let these pods start; None if they displace none. taken, broken: see `Victims`."""
        return self._victims.decide(ask, self._budgets.all(), taken, now, broken)

    def protected_until(self, ask: Ask, now: float) -> float | None:
        """Return `Victims.protected_until`."""
        return self._victims.protected_until(ask, now)

    def resume(self) -> bool:
        """Take over the victims that an earlier scheduler marked; return whether there are any."""
        for key, gang in self._roster.gangs.items():
            if marked := [pod for pod in gang.bound.values() if PREEMPTED_ANNOTATION in pod.metadata.annotations]:
                message = marked[0].metadata.annotations[PREEMPTED_ANNOTATION]
                for pod in self._victims.with_rest(key, gang, marked):
                    self._told[pod.metadata.uid] = _Victim(key, pod, "", message)
        return bool(self._told)

    def gone_by(self, plan: Preemption, now: float) -> float:
        """Return `Victims.gone_by`."""
        return self._victims.gone_by(plan, now)

    def displace(self, ask: Ask, plan: Preemption) -> int:
        """Choose the victims of a plan, which `evict` then evicts; return how many there are."""
        self.spare(ask.key)
        name = split_key(ask.key)[0] if ask.carrier is not None else key_of(ask.turn.pods[0])
        for key, uids in plan.victims.items():
            bound = self._roster.gangs[key].bound
            for uid in uids:
                message = f"Preempted by {name} on node {bound[uid].spec.node_name}"
                self._told[uid] = _Victim(key, bound[uid], ask.key, message)
                self._spared.pop(uid, None)
        return sum(map(len, plan.victims.values()))

    def goes(self, key: str) -> bool:
        """Return whether pods of a gang were chosen as victims whose deletion is not observed yet."""
        gang = self._roster.gangs.get(key)
        if gang is None or not self._told:
            return False
        return any(uid in self._told and not is_preempted(pod) for uid, pod in gang.bound.items())

    def give_back(self, key: str, message: str) -> None:
        """Choose all pods of a gang as victims, for no other gang; `evict` then evicts them."""
        for uid, pod in self._roster.gangs[key].bound.items():
            self._told[uid] = _Victim(key, pod, "", message)
            self._spared.pop(uid, None)

    def spare(self, by: str) -> bool:
        """Spare the victims of a gang that needs none any more, as far as no pod of their gangs has gone.

        Return whether `evict` has to remove marks.
        """
        for uid, victim in list(self._told.items()):
            if victim.by == by and not self._begun[victim.gang]:
                self._spared[uid] = self._told.pop(uid)
        return bool(self._spared)

    async def evict(self) -> None:
        """Evict the victims.

        Raises the first error once all have been tried; failed evictions are retried at the next call.
        """
        victims = dict(self._told)
        await _apply_to_all(self._spared, self._unmark)
        await _apply_to_all(victims, self._mark)
        await _apply_to_all(victims, self._evict)
        self._begun &= Counter({victim.gang: self._begun[victim.gang] for victim in self._told.values()})

    async def nominate(self, ask: Ask, placement: Placement | None) -> None:
        """Record on the pods the nodes where they will be bound; None: the nodes are no longer known."""
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
            await self._restore_finalizer(uid, victim.pod, {PREEMPTED_ANNOTATION: None})
            self._spared.pop(uid, None)

    async def _restore_finalizer(self, uid: str, pod: Pod, annotations: Mapping[str, None]) -> None:
        """Give a marked pod its Job's finalizer back, so that the pod counts.

        An unmarked pod may have been counted already.

        Raises `ApiError` (Conflict).
        """
        with ignoring("NotFound"):
            current = await self._client.get(POD, pod.metadata.name, pod.metadata.namespace)
            if current.metadata.uid != uid or PREEMPTED_ANNOTATION not in current.metadata.annotations:
                return
            tracked = not self._runs_jobs and job_reference(current) is not None and not is_deleting(current)
            patch = {"annotations": annotations} | ({"finalizers": [TRACKING_FINALIZER]} if tracked else {})
            await self._client.patch_object(POD, current, {"metadata": patch}, type=STRATEGIC_MERGE_PATCH)

    async def _mark(self, uid: str, victim: _Victim) -> None:
        """Mark a pod as a victim. A pod that has ended counts instead, and is not evicted."""
        pod, annotations = victim.pod, {PREEMPTED_ANNOTATION: victim.message}
        uncounted = {} if self._runs_jobs else UNTRACK
        for _ in range(_TRIES):
            current = await self._client.find(POD, pod.metadata.name, pod.metadata.namespace)
            if current is None or current.metadata.uid != uid or is_finished(current):
                self._told.pop(uid, None)
                return
            marked = PREEMPTED_ANNOTATION in current.metadata.annotations
            if marked and (self._runs_jobs or TRACKING_FINALIZER not in current.metadata.finalizers):
                return
            with ignoring("Conflict"):  # the pod changed meanwhile, and may have ended
                patch = {"metadata": uncounted | {"annotations": annotations}}
                await self._client.patch_object(POD, current, patch, type=STRATEGIC_MERGE_PATCH)
                return
        # One more counted failure does less harm than half a gang that stays.
        await self._patch(pod, {"metadata": {"annotations": annotations}})

    async def _evict(self, uid: str, victim: _Victim) -> None:
        """Evict a marked pod, unless it may stay by now."""
        if uid not in self._told:
            return
        pod = victim.pod
        self._begun[victim.gang] += 1
        with ignoring("NotFound"):
            try:
                await self._client.post(POD, pod.metadata.name, pod.metadata.namespace, "eviction", make_eviction(pod))
            except ApiError as error:
                # A budget was used up meanwhile, so the pod stays for now, and counts. Its mark is removed, because
                # its Job replaces no pod beside a marked one, and the budget may depend on those replacements.
                self._begun[victim.gang] -= 1
                if is_refusal(error, "TooManyRequests"):
                    await self._restore_finalizer(uid, pod, {PREEMPTED_ANNOTATION: None})
                elif not self._runs_jobs:
                    await self._restore_finalizer(uid, pod, {})
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


async def _apply_to_all(victims: Mapping[str, _Victim], act: Callable[[str, _Victim], Awaitable[None]]) -> None:
    """Apply `act` to all victims, some at a time. Raises the first error once all have been tried."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(uid: str, victim: _Victim) -> None:
        async with limit:
            await act(uid, victim)

    outcomes = await asyncio.gather(*(one(*item) for item in victims.items()), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


def make_eviction(pod: Pod) -> dict[str, Any]:
    """Return the request that evicts this very pod."""
    meta = pod.metadata
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "deleteOptions": {"preconditions": {"uid": meta.uid}},
    }
