"""Choose victims for a gang that finds no room, from the roster. This module writes no objects."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from muster.api.core import Pod
from muster.api.groups.policy import PodDisruptionBudget
from muster.api.pods import get_priority
from muster.api.values.selectors import label_matcher
from muster.controllers.gangs import Gang, read_creation_time
from muster.controllers.scheduler.ask import GangTurn
from muster.controllers.scheduler.roster import LATE_SECONDS, Roster, started_at
from muster.gang.arrays import Ints
from muster.gang.fit.packing import Effort
from muster.gang.order.preemption import (
    Candidate,
    DisruptionBudget,
    GangPreemption,
    Protected,
    compute_resistance,
    compute_strength,
    preempt,
    protected_until,
)
from muster.gang.order.recovery import make_rivals
from muster.gang.placement import Refusal
from muster.gang.quorum import Quorum
from muster.runtime.objects import key_of

_USUAL_GRACE = 30

# Returns the quorums that a gang needs to keep running; empty if it needs all its pods.
Needs: TypeAlias = Callable[[str, Gang], Sequence[Quorum]]


class Victims:
    """The running gangs as candidates for preemption, each cached until one of its pods changes."""

    def __init__(self, roster: Roster, needs: Needs, least: float = 0.0) -> None:
        """Start with an empty cache.

        least: the seconds for which every started pod is protected.
        """
        self._roster = roster
        self._needs = needs
        self._least = least
        # By gang, with the version of the gang that the entry was computed from.
        self._candidates: dict[str, tuple[int, Candidate | None]] = {}

    def decide(
        self,
        ask: GangTurn,
        budgets: Iterable[PodDisruptionBudget],
        extra_use: Ints,
        now: float,
        broken: Sequence[str] = (),
    ) -> GangPreemption | Protected | Refusal | None:
        """Return the pods to evict so that a gang fits, or why eviction does not help.

        Return None if the gang may not preempt, or if no gang of lower priority runs and no pod is being deleted.

        extra_use: the amounts on each node that are reserved for other gangs, minus those of pods that are being
        deleted.
        now: the current time, in seconds since the epoch.
        broken: broken gangs that are preempted first, regardless of their priority, the last one first.
        """
        strong = compute_strength(ask.turn.pods)
        if strong is None:
            return None
        running = {one.key: one for one in self._list_candidates(now)}
        rivalling = make_rivals(running.pop(key) for key in broken if key in running)
        weaker = [*(one for one in running.values() if one.resistance < strong), *rivalling]
        going = self._roster.list_leaving_pods(now)
        if not weaker and not going:
            return None
        capacity, placing, effort = self._roster.capacity, ask.place_without, Effort()
        protecting = list(self._find_budgets(budgets, weaker))
        return preempt(
            capacity, ask.fewest, lambda used, gone: placing(capacity, used, gone, effort), strong, weaker, now,
            extra_use=extra_use, leaving=going, budgets=protecting,
        )  # fmt: skip

    def with_rest(self, key: str, gang: Gang, chosen: Sequence[Pod]) -> Sequence[Pod]:
        """Return these victims, with all other pods of their gang if the gang cannot run without the victims."""
        uids = {pod.metadata.uid for pod in chosen}
        needs = self._needs(key, gang)
        enough = bool(needs) and all(len(quorum.pods - uids) >= quorum.least for quorum in needs)
        return chosen if enough else list(gang.bound.values())

    def gone_by(self, plan: GangPreemption, now: float) -> float:
        """Return when the plan's victims, and the pods that are being deleted already, should be deleted."""
        uids = {uid for pods in plan.victims.values() for uid in pods}
        bound = (pod for key in plan.victims for pod in self._roster.gangs[key].bound.values())
        graces = [_find_grace(pod) for pod in bound if pod.metadata.uid in uids]
        going = [self._roster.leaving[uid] for uid in self._roster.list_leaving_pods(now)]
        return max([*going, now + max(graces, default=0.0)]) + LATE_SECONDS

    def protected_until(self, ask: GangTurn, now: float) -> float | None:
        """Return when the first gang of lower priority loses its protection as a recent start, or None.

        The result is None if no such gang is protected.
        """
        strong = compute_strength(ask.turn.pods)
        if strong is None:
            return None
        times = (one.protected for one in self._list_candidates(now) if one.resistance < strong and one.protected > now)
        return min(times, default=None)

    def _list_candidates(self, now: float) -> Iterator[Candidate]:
        for key, gang in self._roster.gangs.items():
            if not gang.bound:
                continue
            version, candidate = self._candidates.get(key, (-1, None))
            if version != gang.version:
                candidate = self._make_candidate(key, gang, now)
                self._candidates[key] = gang.version, candidate
            if candidate is not None:
                yield candidate
        for key in self._candidates.keys() - self._roster.gangs.keys():
            del self._candidates[key]

    def _make_candidate(self, key: str, gang: Gang, now: float) -> Candidate | None:
        pods = sorted(
            gang.bound.values(),
            key=lambda pod: (-get_priority(pod), read_creation_time(pod.metadata), pod.metadata.name),
        )
        resists = compute_resistance(pods)
        if resists is None:
            return None
        started = min(started_at(pod, now) for pod in pods)
        protected = max(protected_until(pod, started_at(pod, now), self._least) for pod in pods)
        uids = tuple(pod.metadata.uid for pod in pods)
        return Candidate(key, uids, resists, started, self._needs(key, gang), protected)

    def _find_budgets(
        self, budgets: Iterable[PodDisruptionBudget], candidates: Iterable[Candidate]
    ) -> Iterator[DisruptionBudget]:
        """Yield the disruption budgets that select pods of the candidates."""
        pods: dict[str, list[Pod]] = {}
        for candidate in candidates:
            for pod in self._roster.gangs[candidate.key].bound.values():
                pods.setdefault(pod.metadata.namespace, []).append(pod)
        for budget in budgets:
            if covered := _find_covered(budget, pods.get(budget.metadata.namespace, ())):
                yield DisruptionBudget(key_of(budget), budget.status.disruptions_allowed, covered)


def _find_grace(pod: Pod) -> float:
    """Return the pod's termination grace period in seconds."""
    grace = pod.spec.termination_grace_period_seconds
    return float(grace if grace is not None else _USUAL_GRACE)


def _find_covered(budget: PodDisruptionBudget, pods: Iterable[Pod]) -> frozenset[str]:
    """Return the UIDs of the pods whose eviction a budget counts. Pods that have not started do not count."""
    matcher = label_matcher(budget.spec.selector)
    return frozenset(
        pod.metadata.uid for pod in pods if pod.status.phase != "Pending" and matcher.matches(pod.metadata.labels)
    )
