"""Displaces gangs of lower priority for one that finds no room: `muster.gang.preemption` decides, here it is written.

Victims go through the Eviction API, so that the server keeps budgets too, whatever was seen of them here. A Job's pods
that went so are no failures of the Job.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from muster.api.batch import TRACKING_FINALIZER
from muster.api.core import POD, Pod
from muster.api.pods import is_finished, priority
from muster.api.policy import POD_DISRUPTION_BUDGET, PodDisruptionBudget
from muster.api.selectors import label_matcher
from muster.controllers.gangs import Gang, created
from muster.controllers.scheduler.ask import Ask
from muster.controllers.scheduler.roster import Roster, started_at
from muster.gang.capacity import Ints
from muster.gang.placement import Refusal
from muster.gang.preemption import (
    Budget,
    Candidate,
    Preemption,
    Protected,
    preempt,
    protected_until,
    resistance,
    strength,
)
from muster.gang.quorum import Quorum
from muster.runtime.client import Client
from muster.runtime.events.recorder import Recorder
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of, reference, split_key
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# Evictions under way for one gang.
_AT_ONCE = 16

# What the carrier of a gang says that it needs to go on; none: all its pods.
Needs = Callable[[str, Gang], Sequence[Quorum]]


class Preemptor:
    """Knows who could go, and lets them go."""

    def __init__(self, manager: Manager, recorder: Recorder, roster: Roster, needs: Needs) -> None:
        self._client: Client = manager.client
        self._recorder = recorder
        self._roster = roster
        self._needs = needs
        self._budgets = manager.informer(POD_DISRUPTION_BUDGET, optional=True)
        self._candidates: dict[str, tuple[int, Candidate | None]] = {}  # by gang, and the version of it that was seen

    def decide(self, ask: Ask, taken: Ints, now: float) -> Preemption | Protected | Refusal | None:
        """Who has to go so that these pods can start; None if they displace none.

        taken: what is kept for others, less what those hold that are leaving already.
        """
        strong = strength(ask.turn.pods)
        if strong is None:
            return None
        weaker = [one for one in self._all(now) if one.resistance < strong]
        if not weaker:
            return None
        capacity, pods = self._roster.capacity, ask.fewest
        budgets = list(self._protecting(weaker))
        placing = ask.placing
        return preempt(
            capacity, pods, lambda used: placing(capacity, used), strong, weaker, now, taken=taken, budgets=budgets
        )

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
        async with asyncio.TaskGroup() as tasks:
            for pod in victims:
                tasks.create_task(evict(pod))

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

    def _all(self, now: float) -> Iterator[Candidate]:
        for key, gang in self._roster.gangs.items():
            if not gang.bound:
                continue
            version, known = self._candidates.get(key, (-1, None))
            if version != gang.version:
                known = self._candidate(key, gang, now)
                self._candidates[key] = gang.version, known
            if known is not None:
                yield known
        for key in self._candidates.keys() - self._roster.gangs.keys():
            del self._candidates[key]

    def _candidate(self, key: str, gang: Gang, now: float) -> Candidate | None:
        pods = sorted(gang.bound.values(), key=lambda pod: (-priority(pod), created(pod.metadata), pod.metadata.name))
        resists = resistance(pods)
        if resists is None:
            return None
        started = min(started_at(pod, now) for pod in pods)
        protected = max(protected_until(pod, started_at(pod, now), 0.0) for pod in pods)
        uids = tuple(pod.metadata.uid for pod in pods)
        return Candidate(key, uids, resists, started, self._needs(key, gang), protected)

    def _protecting(self, candidates: Iterable[Candidate]) -> Iterator[Budget]:
        """The budgets that some of their pods count against."""
        pods: dict[str, list[Pod]] = {}
        for candidate in candidates:
            for pod in self._roster.gangs[candidate.key].bound.values():
                pods.setdefault(pod.metadata.namespace, []).append(pod)
        for budget in self._budgets.all():
            if covered := _covered(budget, pods.get(budget.metadata.namespace, ())):
                yield Budget(key_of(budget), budget.status.disruptions_allowed, covered)

    async def _evict(self, pod: Pod, message: str) -> None:
        meta = pod.metadata
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        patch = {"status": {"conditions": [condition | {"message": message}]}}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": {"preconditions": {"uid": meta.uid}},
        }
        with ignoring("NotFound", "Conflict"):
            await self._client.post(POD, meta.name, meta.namespace, "eviction", body)
            self._recorder.event(reference(POD, pod), "Normal", "Preempted", message)
            await self._client.patch_object(
                POD, pod, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status"
            )
            going = await self._client.find(POD, meta.name, meta.namespace)
            if going is not None and going.metadata.uid == meta.uid and not is_finished(going):
                kept = [finalizer for finalizer in going.metadata.finalizers if finalizer != TRACKING_FINALIZER]
                await self._client.patch_object(POD, going, {"metadata": {"finalizers": kept}})


def _covered(budget: PodDisruptionBudget, pods: Iterable[Pod]) -> frozenset[str]:
    """The pods that count against a budget when they go; what has not started disrupts nothing."""
    matcher = label_matcher(budget.spec.selector)
    return frozenset(
        pod.metadata.uid for pod in pods if pod.status.phase != "Pending" and matcher.matches(pod.metadata.labels)
    )
