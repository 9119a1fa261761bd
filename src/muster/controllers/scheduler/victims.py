"""Who could go for a gang that finds no room, as far as the roster knows. Nothing is written here."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from muster.api.core import Pod
from muster.api.groups.policy import PodDisruptionBudget
from muster.api.pods import priority
from muster.api.values.selectors import label_matcher
from muster.controllers.gangs import Gang, created
from muster.controllers.scheduler.ask import Ask
from muster.controllers.scheduler.roster import LATE_SECONDS, Roster, started_at
from muster.gang.nodes.capacity import Ints
from muster.gang.order.preemption import (
    Budget,
    Candidate,
    Preemption,
    Protected,
    preempt,
    protected_until,
    resistance,
    strength,
)
from muster.gang.placement import Refusal
from muster.gang.quorum import Quorum
from muster.runtime.objects import key_of

_USUAL_GRACE = 30

# What the carrier of a gang says that it needs to go on; none: all its pods.
Needs: TypeAlias = Callable[[str, Gang], Sequence[Quorum]]


class Victims:
    """The gangs that run, as candidates; what is known of one is kept until something of its pods changes."""

    def __init__(self, roster: Roster, needs: Needs, least: float = 0.0) -> None:
        """`least`: for so many seconds all that has started is left alone."""
        self._roster = roster
        self._needs = needs
        self._least = least
        self._candidates: dict[str, tuple[int, Candidate | None]] = {}  # by gang, and the version of it that was seen

    def decide(
        self, ask: Ask, budgets: Iterable[PodDisruptionBudget], taken: Ints, now: float
    ) -> Preemption | Protected | Refusal | None:
        """Who has to go so that these pods can start; None if they displace none.

        taken: what is kept for others, less what those hold that are leaving already.
        """
        strong = strength(ask.turn.pods)
        if strong is None:
            return None
        weaker = [one for one in self._all(now) if one.resistance < strong]
        going = self._roster.going(now)
        if not weaker and not going:
            return None
        capacity, placing = self._roster.capacity, ask.placing
        protecting = list(self._protecting(budgets, weaker))
        return preempt(
            capacity, ask.fewest, lambda used, gone: placing(capacity, used, gone), strong, weaker, now,
            taken=taken, leaving=going, budgets=protecting,
        )  # fmt: skip

    def with_rest(self, key: str, gang: Gang, told: Sequence[Pod]) -> Sequence[Pod]:
        """Those of a gang that have to go once some were told to: the others too, if they cannot go on alone."""
        uids = {pod.metadata.uid for pod in told}
        needs = self._needs(key, gang)
        enough = bool(needs) and all(len(quorum.pods - uids) >= quorum.least for quorum in needs)
        return told if enough else list(gang.bound.values())

    def gone_by(self, plan: Preemption, now: float) -> float:
        """When all that a gang waits for should be gone: its victims, and those that are leaving already."""
        uids = {uid for pods in plan.victims.values() for uid in pods}
        bound = (pod for key in plan.victims for pod in self._roster.gangs[key].bound.values())
        graces = [_grace(pod) for pod in bound if pod.metadata.uid in uids]
        going = [self._roster.leaving[uid] for uid in self._roster.going(now)]
        return max([*going, now + max(graces, default=0.0)]) + LATE_SECONDS

    def protected_until(self, ask: Ask, now: float) -> float | None:
        """When the first of the weaker may be told to go, of those that have yet to run for a while."""
        strong = strength(ask.turn.pods)
        if strong is None:
            return None
        times = (one.protected for one in self._all(now) if one.resistance < strong and one.protected > now)
        return min(times, default=None)

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
        protected = max(protected_until(pod, started_at(pod, now), self._least) for pod in pods)
        uids = tuple(pod.metadata.uid for pod in pods)
        return Candidate(key, uids, resists, started, self._needs(key, gang), protected)

    def _protecting(self, budgets: Iterable[PodDisruptionBudget], candidates: Iterable[Candidate]) -> Iterator[Budget]:
        """The budgets that some of their pods count against."""
        pods: dict[str, list[Pod]] = {}
        for candidate in candidates:
            for pod in self._roster.gangs[candidate.key].bound.values():
                pods.setdefault(pod.metadata.namespace, []).append(pod)
        for budget in budgets:
            if covered := _covered(budget, pods.get(budget.metadata.namespace, ())):
                yield Budget(key_of(budget), budget.status.disruptions_allowed, covered)


def _grace(pod: Pod) -> float:
    """How long it may take to end once it is told to, in seconds."""
    grace = pod.spec.termination_grace_period_seconds
    return float(grace if grace is not None else _USUAL_GRACE)


def _covered(budget: PodDisruptionBudget, pods: Iterable[Pod]) -> frozenset[str]:
    """The pods that count against a budget when they go; what has not started disrupts nothing."""
    matcher = label_matcher(budget.spec.selector)
    return frozenset(
        pod.metadata.uid for pod in pods if pod.status.phase != "Pending" and matcher.matches(pod.metadata.labels)
    )
