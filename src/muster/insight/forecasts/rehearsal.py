"""Forecast the placement of gangs that a user would create now: nodes and victims, or missing resources. Pure.

The scheduler's own decision functions run on the observed objects. All waiting gangs, including the new ones, are
placed in the scheduler's order.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from muster.api.batch import JOB, Job
from muster.api.config import Scheduling
from muster.api.core import Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from muster.api.groups.policy import PodDisruptionBudget
from muster.api.values.durations import SECOND
from muster.controllers.gangs import GangSource, Turn, find_gang_of_done, gang_of
from muster.controllers.scheduler.ask import GangTurn
from muster.controllers.scheduler.carrier import Carrier, Carriers
from muster.controllers.scheduler.deciding import KeptRoom, decide_start
from muster.controllers.scheduler.pending import PendingGangs, Waiter
from muster.controllers.scheduler.roster import Roster
from muster.controllers.scheduler.victims import Victims
from muster.gang.arrays import Ints
from muster.gang.explain import explain
from muster.gang.nodes.capacity import Strategy
from muster.gang.nodes.holdings import Holdings
from muster.gang.order.preemption import GangPreemption, Protected
from muster.gang.placement import Placement, Refusal
from muster.gang.quorum import Chosen
from muster.gang.shapes import DeviceAsk, guest_of
from muster.insight.forecasts.nodestate import node_at_best
from muster.runtime.objects import key_of, split_key

Verdict = Literal["starts", "preempts", "waits", "never"]

_DEFAULT = Scheduling()


@dataclass(frozen=True, slots=True)
class ClusterReadings:
    """The observed objects of a cluster; lists that the user may not see are empty.

    carriers: the objects that may define gangs, such as Jobs and PodGroups.
    settings: the scheduler's settings, or the defaults if the user may not see them.
    """

    now: datetime
    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    carriers: Sequence[Carrier] = ()
    namespaces: Sequence[Namespace] = ()
    claims: Sequence[PersistentVolumeClaim] = ()
    volumes: Sequence[PersistentVolume] = ()
    budgets: Sequence[PodDisruptionBudget] = ()
    settings: Scheduling = _DEFAULT


@dataclass(frozen=True, slots=True)
class LosingGang:
    """A gang that would lose pods to another gang.

    pods: how many pods it would lose.
    whole: whether it would lose all of them.
    """

    name: str
    pods: int
    whole: bool


@dataclass(frozen=True, slots=True)
class GangPlan:
    """The forecast for one gang.

    name: `namespace/name` of its Job, group or pod.
    pods: the number of pods to place.
    verdict: whether the gang would start now, after evictions, later, or never.
    nodes: how many pods each node would get after the victims were evicted.
    victims: the gangs that would be evicted for it.
    reason: why the gang would not start now.
    starts: when it is expected to start, if not now.
    """

    name: str
    pods: int
    verdict: Verdict
    nodes: Mapping[str, int] = field(default_factory=dict)
    victims: Sequence[LosingGang] = ()
    reason: str = ""
    starts: datetime | None = None

    @property
    def placed_pods(self) -> int:
        """How many of its pods would get a node."""
        return sum(self.nodes.values())


def rehearse(
    readings: ClusterReadings, sources: Sequence[GangSource[Any]], planned: Sequence[Pod]
) -> dict[str, GangPlan]:
    """Return the plans of the gangs of `planned` pods, by the UID of each pod, as if the pods were created now.

    A gang that does not fit even after all other gangs ended, but would fit with all nodes at their best, waits for
    those nodes.
    """
    plans = _rehearse(readings, sources, planned)
    if any(plan.verdict == "never" for plan in plans.values()):
        best = _rehearse(replace(readings, nodes=[node_at_best(node) for node in readings.nodes]), sources, planned)
        plans = {uid: plan if best[uid].verdict == "never" else _pass_if_well(plan) for uid, plan in plans.items()}
    return plans


def _pass_if_well(plan: GangPlan) -> GangPlan:
    return replace(plan, verdict="waits") if plan.verdict == "never" else plan


def _rehearse(
    readings: ClusterReadings, sources: Sequence[GangSource[Any]], planned: Sequence[Pod]
) -> dict[str, GangPlan]:
    rehearsal = _Rehearsal(readings, sources)
    for pod in planned:
        rehearsal.roster.pod_changed(None, pod)
    keys = {pod.metadata.uid: gang_of(pod, sources)[0] for pod in planned}
    plans = rehearsal.run(frozenset(keys.values()))
    return {pod.metadata.uid: plans.get(keys[pod.metadata.uid]) or _plan_foreign_pod(pod) for pod in planned}


def _plan_foreign_pod(pod: Pod) -> GangPlan:
    """Return the plan of a pod that names another scheduler: it waits, unless it has a node already."""
    if pod.spec.node_name:
        return GangPlan(key_of(pod), 1, "starts", {pod.spec.node_name: 1})
    gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    why = f"it is gated: {gates}" if gates else f"scheduler {pod.spec.scheduler_name} has to place it"
    return GangPlan(key_of(pod), 1, "waits", reason=why)


class _Rehearsal:
    """One pass of the scheduler over all waiting gangs, which writes no objects."""

    def __init__(self, readings: ClusterReadings, sources: Sequence[GangSource[Any]]) -> None:
        settings = readings.settings
        self.roster = Roster(sources, frozenset(settings.scheduler_names), Strategy(settings.scoring_strategy))
        self._now = readings.now.timestamp()
        self._said = Carriers(lambda _, key: self._carriers.get(key), lambda key: self._jobs.get(key, ()))
        self._pending = PendingGangs(
            self.roster, partial(self.roster.make_ledger, carried=self._said.end), settings.overtakings
        )
        self._victims = Victims(self.roster, self._said.needs, settings.minimum_run_time / SECOND)
        self._budgets = readings.budgets
        self._sources = sources
        self._carriers: dict[str, Carrier] = {}
        self._jobs: dict[str, list[Job]] = {}
        for carrier in readings.carriers:
            if carrier.kind == JOB and (key := find_gang_of_done(carrier.object, sources)):
                self._jobs.setdefault(key, []).append(carrier.object)
        for source in sources:
            for carrier in readings.carriers:
                if carrier.kind in source.kinds:
                    self._carriers.setdefault(source.key_of(carrier.object), carrier)
        for namespace in readings.namespaces:
            self.roster.namespace_changed(None, namespace)
        for volume in readings.volumes:
            self.roster.volume_changed(None, volume)
        for claim in readings.claims:
            self.roster.claim_changed(None, claim)
        for node in readings.nodes:
            self.roster.node_changed(None, node)
        for pod in readings.pods:
            self.roster.pod_changed(None, pod)

    def run(self, wanted_keys: frozenset[str]) -> dict[str, GangPlan]:
        """Place all waiting gangs in the scheduler's order; return the plans of the requested gangs, by key."""
        plans: dict[str, GangPlan] = {}
        asks = []
        for key in list(self.roster.gangs):
            _, due = self._said.due(key, self.roster)
            if key in wanted_keys and not due.turns and self.roster.gangs[key].unbound:
                plans[key] = self._plan_lacking(key, due.lacking)
            asks += [self._make_turn(key, turn) for turn in due.turns]
        for ask in sorted(asks, key=lambda ask: self._pending.rank(ask.key, ask.criteria)):
            plan = self._place_gang(ask, wants_plan=ask.key in wanted_keys)
            if plan is not None:
                before = plans.get(ask.key)
                plans[ask.key] = plan if before is None else merge_plans(before, plan)
        return plans

    def _make_turn(self, key: str, turn: Turn) -> GangTurn:
        gang, carrier = self.roster.gangs[key], self._carriers.get(key)
        return GangTurn.of(key, gang, turn, carrier, self.roster.capacity, frozenset(), _ask_no_devices)

    def _place_gang(self, ask: GangTurn, *, wants_plan: bool) -> GangPlan | None:
        """Place a gang, or let it wait, as the scheduler would; return its plan, or None.

        wants_plan: whether the caller requested the plan of this gang. If not, the result is None.
        """
        outcome = decide_start(self._pending, ask, self.roster.capacity, self._now)
        if isinstance(outcome, Refusal):
            return self._plan_without_room(ask, outcome, wants_plan=wants_plan)
        if isinstance(outcome, KeptRoom):
            name = split_key(outcome.head.key)[0] if outcome.head is not None else "others"
            return (
                self._plan(ask, "waits", reason=f"the nodes are kept for {name}, which goes first")
                if wants_plan
                else None
            )
        self._bind(ask, outcome)
        return self._plan(ask, "starts", nodes=_count_pods_by_node(outcome.placement)) if wants_plan else None

    def _bind(self, ask: GangTurn, chosen: Chosen) -> None:
        """Count the chosen pods as running on their nodes, as after a binding."""
        for pod, node in ask.bindings(chosen):
            self.roster.capacity.assign(pod.metadata.uid, node, guest_of(pod))
            self.roster.count_as_bound(pod, node)

    def _plan_without_room(self, ask: GangTurn, refusal: Refusal, *, wants_plan: bool) -> GangPlan | None:
        sentence = explain(self.roster.capacity, refusal, len(ask.turn.pods), ask.turn.demand)
        plan = self._plan(ask, "waits", reason=sentence)
        if wants_plan and not ask.turn.surplus:
            decision = self._victims.decide(ask, self._budgets, self._sum_leaving(), self._now)
            if isinstance(decision, GangPreemption) and decision.victims:
                return self._plan_preemption(ask, decision, sentence)
            if isinstance(decision, Protected):
                reason = f"{sentence} Others would have to go that are protected by {', '.join(decision.budgets)}."
                plan = self._plan(ask, "waits", reason=reason)
        if ask.turn.surplus:
            return plan if wants_plan else None
        waiter = Waiter(ask.alike, ask.criteria)
        never = self._pending.reserve_for(ask.key, waiter, partial(ask.place_without, self.roster.capacity), self._now)
        if not wants_plan:
            return None
        if never is not None and never.is_of_room:
            return self._plan(ask, "never", reason=sentence)
        head = self._pending.head
        if head is not None and head.key == ask.key and head.reservation.shadow is not None:
            return self._plan(ask, "waits", reason=plan.reason, starts=head.reservation.shadow)
        return plan

    def _plan_preemption(self, ask: GangTurn, preemption: GangPreemption, sentence: str) -> GangPlan:
        victims = [
            LosingGang(self._find_display_name(key), len(pods), whole=len(pods) == len(self.roster.gangs[key].bound))
            for key, pods in sorted(preemption.victims.items())
        ]
        for pods in preemption.victims.values():
            for uid in pods:
                self.roster.capacity.release(uid)
        placed = ask.place(self.roster.capacity)
        if isinstance(placed, Chosen):
            self._bind(ask, placed)
        return self._plan(
            ask, "preempts", nodes=_count_pods_by_node(preemption.placement), victims=victims, reason=sentence
        )

    def _plan_lacking(self, key: str, lacking: str) -> GangPlan:
        """Return the plan of a gang that lacks pods: it waits.

        lacking: a sentence on what it lacks; "" if there is none.
        """
        pods = len(self.roster.gangs[key].unbound)
        return GangPlan(
            self._find_display_name(key), pods, "waits", reason=lacking or "not all of its pods would be there"
        )

    def _plan(
        self,
        ask: GangTurn,
        verdict: Verdict,
        *,
        nodes: Mapping[str, int] | None = None,
        victims: Sequence[LosingGang] = (),
        reason: str = "",
        starts: float | None = None,
    ) -> GangPlan:
        at = None if starts is None else datetime.fromtimestamp(starts, UTC)
        return GangPlan(self._find_display_name(ask.key), len(ask.turn.pods), verdict, nodes or {}, victims, reason, at)

    def _find_display_name(self, key: str) -> str:
        """Return the name of the gang's Job or group, or of its single pod."""
        gang = self.roster.gangs[key]
        return key_of(gang.pods[0]) if gang.source is None else split_key(key)[0]

    def _sum_leaving(self) -> Ints:
        return Holdings.of(self.roster.capacity, [tuple(self.roster.list_leaving_pods(self._now))]).freed()


def _ask_no_devices(pod: Pod) -> DeviceAsk:  # noqa: ARG001  (it is the type's)
    """Return a demand for no devices, because plans ignore ResourceClaims (`ObjectPlan.caveat`)."""
    return DeviceAsk()


def _count_pods_by_node(placement: Placement) -> Counter[str]:
    """Return how many pods each node gets."""
    counts: Counter[str] = Counter()
    for nodes in placement.nodes.values():
        counts.update(dict(nodes))
    return counts


# The verdict on several turns of a gang, or several gangs, is the worst of their verdicts.
_WORST: tuple[Verdict, ...] = ("never", "waits", "preempts", "starts")


def merge_plans(one: GangPlan, other: GangPlan) -> GangPlan:
    """Merge the plans of two gangs of one object: the worse verdict, and the pods, nodes and victims of both."""
    worst = min(one, other, key=lambda plan: _WORST.index(plan.verdict))
    nodes = Counter(one.nodes) + Counter(other.nodes)
    return replace(worst, pods=one.pods + other.pods, nodes=nodes, victims=(*one.victims, *other.victims))
