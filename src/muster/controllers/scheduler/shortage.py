"""Handle gangs that cannot start now: publish why they wait, and reserve room for them or preempt."""

from collections.abc import Collection
from datetime import UTC, datetime
from functools import partial

from muster.controllers.elastic.placement import Sizes
from muster.controllers.scheduler.agenda import Agenda
from muster.controllers.scheduler.ask import Ask
from muster.controllers.scheduler.capacityrequest import CapacityRequests
from muster.controllers.scheduler.decisions import (
    DEVICES_DIFFER,
    NO_ROOM,
    NODES_KEPT,
    NODES_NOMINATED,
    PlacementRecorder,
)
from muster.controllers.scheduler.halves import REST_SECONDS, Halves
from muster.controllers.scheduler.metrics import SchedulerMetrics
from muster.controllers.scheduler.pending import Head, PendingGangs, Waiter
from muster.controllers.scheduler.preemption import Preemptor
from muster.controllers.scheduler.recovery import Recovery
from muster.controllers.scheduler.roster import Roster
from muster.controllers.scheduler.telling import Teller
from muster.gang.demands import describe_demand
from muster.gang.explain import explain
from muster.gang.nodes.holdings import Holdings
from muster.gang.order.preemption import Preemption, Protected
from muster.gang.placement import Refusal
from muster.runtime.clock import Clock
from muster.runtime.objects import split_key

# The seconds that elastic gangs get to shrink for another gang before victims are evicted.
PREEMPT_SECONDS = 1.0


class Shortage:
    """A handler of gangs that found no room.

    `_find_victims` and what it calls write nothing and let no other task run.
    """

    def __init__(
        self,
        roster: Roster,
        pending: PendingGangs,
        agenda: Agenda,
        preemptor: Preemptor,
        halves: Halves,
        recovery: Recovery,
        teller: Teller,
        sizes: Sizes,
        requests: CapacityRequests | None,
        metrics: SchedulerMetrics,
        records: PlacementRecorder,
        clock: Clock,
    ) -> None:
        self._roster = roster
        self._pending = pending
        self._agenda = agenda
        self._preemptor = preemptor
        self._halves = halves
        self._recovery = recovery
        self._teller = teller
        self._sizes = sizes
        self._requests = requests
        self._metrics = metrics
        self._records = records
        self._clock = clock

    async def no_room(self, ask: Ask, refusal: Refusal, now: float) -> None:
        """Let a gang without room wait; if it is the first that waits, reserve room for it or preempt."""
        sentence, plan = explain(self._roster.capacity, refusal, sum(ask.fewest.values()), ask.turn.demand), None
        if not ask.turn.surplus:
            plan, words = self._find_victims(ask, now)
            sentence += words + self._reserve(ask, now)
            if self._requests is not None and not self._pending.is_nominated(ask.key):
                self._requests.lacks(ask)
        self._wait(ask)
        self._records.waits(ask, NO_ROOM, sentence)
        self._agenda.sizes()
        if ask.closed:
            self._agenda.gang_after(ask.key, REST_SECONDS)
        if not self._pending.is_nominated(ask.key):
            await self._preemptor.nominate(ask, None)
            await self._halves.look_at(ask.key, ask.carrier, "the rest no longer fits")
        if plan is not None:
            self._records.preempts(ask, plan, self._roster.gangs)
            self._metrics.preempted(self._preemptor.displace(ask, plan))
            self._agenda.evict()
            await self._preemptor.nominate(ask, plan.placement)
        await self._tell(ask, sentence)

    async def kept_for(self, head: Head | None, ask: Ask, now: float) -> None:
        """Let a gang wait although there is room.

        The gang would delay the head, or victims freed the room for another gang.
        """
        if head is None:
            sentence = "The nodes are kept for a gang for which other pods were evicted."
            self._records.waits(ask, NODES_NOMINATED, sentence)
            await self._keep_back(ask, sentence)
            return
        name, expected = split_key(head.key)[0], _describe_expected_start(head, now)
        sentence = f"The nodes are kept for {name}, which goes first{expected}."
        self._records.waits(ask, NODES_KEPT, sentence, name)
        await self._keep_back(ask, sentence)

    async def devices_differ(self, ask: Ask) -> None:
        """Let a gang wait for devices.

        There are enough, but no node has a set that suits the pod's claims together.
        """
        nodes = f"0/{len(self._roster.capacity)} nodes are available"
        sentence = f"{nodes}: no node has free devices that suit a claim together."
        self._records.waits(ask, DEVICES_DIFFER, sentence)
        await self._keep_back(ask, sentence, rest="the rest no longer fits")

    async def _keep_back(
        self, ask: Ask, sentence: str, rest: str = "the nodes for the rest are kept for another gang"
    ) -> None:
        """Let a gang wait. sentence: the reason, for users. rest: the reason if half of the gang is bound."""
        self._wait(ask)
        await self._halves.look_at(ask.key, ask.carrier, rest)
        await self._tell(ask, sentence)

    def _wait(self, ask: Ask) -> None:
        """Add a gang to those that wait."""
        self._metrics.attempted("unschedulable", len(ask.turn.pods))
        waiter = self._pending.get(ask.key)
        if ask.turn.repairs and (waiter is None or not waiter.standing.broken):
            # This broken gang may be a victim for one of them.
            for key in self._pending.broken_before(ask.key, ask.standing):
                self._agenda.gang(key)
        self._pending.wait(ask.key, Waiter(ask.alike, ask.standing))

    async def _tell(self, ask: Ask, sentence: str) -> None:
        """Publish why a gang waits, and for which demand, unless that is published already."""
        sentence = " ".join(filter(None, (sentence, describe_demand(ask.turn.demand, len(ask.turn.pods)))))
        if ask.turn.repairs:
            sentence += self._recovery.look_at(ask)
        if self._pending.told(ask.key) != sentence:
            await self._teller.waits(ask.turn.pods, ask.carrier, sentence)
            self._pending.tell(ask.key, sentence)

    def _reserve(self, ask: Ask, now: float) -> str:
        """Reserve room for a gang if it is the first that waits; return what to publish about that."""
        waiter, placing = Waiter(ask.alike, ask.standing), partial(ask.placing, self._roster.capacity)
        before = self._pending.head
        never = self._pending.keep_for(ask.key, waiter, placing, now)
        if never is not None:
            if before is not None and self._pending.head is None:
                self._agenda.sweep()  # retries the gangs that the former head prevented from starting
            for_ever = never.is_of_room and not never.shape.unable  # reasons of other kinds may still change
            return " It would not fit even if everything that ever ends had ended." if for_ever else ""
        head = self._pending.head
        if head is None or head.key != ask.key:
            return ""
        if head.reservation.shadow is not None:  # by then gangs have ended, or run longer than expected
            self._agenda.sweep(max(head.reservation.shadow - now, 1.0))
        expected = _describe_expected_start(head, now)
        return f" It goes first{expected}." if expected else ""

    def _find_victims(self, ask: Ask, now: float) -> tuple[Preemption | None, str]:
        """Choose victims for a gang; return the plan, and what to publish about it."""
        if self._sizes.active and self._pending.get(ask.key) is None:  # elastic gangs shrink before anything is evicted
            self._agenda.gang_after(ask.key, PREEMPT_SECONDS, ask.gang.priority)
            return None, ""
        broken = self._pending.broken_after(ask.key, ask.standing) if ask.turn.repairs else ()
        if not broken and (words := self._pending.tried(ask.alike, ask.standing)) is not None:
            return None, words
        roster = self._roster
        leaving = Holdings.of(roster.capacity, [tuple(roster.going(now))]).freed()
        nominated = self._pending.kept_for_others(ask.key, ask.standing)
        plan = self._preemptor.decide(ask, leaving if nominated is None else leaving + nominated, now, broken)
        if isinstance(plan, Preemption):
            self._pending.nominate(ask.key, ask.standing, plan.placement)
            # Pods that are not gone by then no longer count as leaving.
            self._agenda.later(self._preemptor.gone_by(plan, now) - now)
            # The next gang of the class may find victims, too.
            if (alike := self._pending.next_alike(ask.alike)) is not None:
                self._agenda.gang(alike)
            if not plan.victims:
                self._spare(ask.key)
                return None, " It starts once the pods that are leaving are gone."
            return plan, _describe_victims(plan, broken)
        if self._pending.withdraw(ask.key):
            self._agenda.sweep()
            self._spare(ask.key)
        if (until := self._preemptor.protected_until(ask, now)) is not None:
            self._agenda.later(until - now)
        words = ""
        if isinstance(plan, Protected):
            words = f" Pods of lower priority are protected by PodDisruptionBudget {', '.join(plan.budgets)}."
        self._pending.try_no_more(ask.alike, ask.standing, words)
        return None, words

    def _spare(self, key: str) -> None:
        """Spare the victims of a gang, except those whose gang is already partly evicted."""
        if self._preemptor.spare(key):
            self._agenda.evict()


def _describe_victims(plan: Preemption, broken: Collection[str]) -> str:
    """Return the sentences on how many pods are being evicted for a gang. broken: the gangs that are not whole."""
    rivals = sum(len(pods) for key, pods in plan.victims.items() if key in broken)
    weaker = sum(map(len, plan.victims.values())) - rivals
    words = f" {rivals} pods of other broken gangs are being evicted for it." if rivals else ""
    return f"{words} {weaker} pods of lower priority are being evicted for it." if weaker else words


def _describe_expected_start(head: Head, now: float) -> str:
    """Return the clause on when the head is expected to start; "" if that is unknown, or soon."""
    shadow = head.reservation.shadow
    if shadow is None or shadow <= now:
        return ""
    return f", expected at {datetime.fromtimestamp(shadow, UTC):%Y-%m-%dT%H:%M:%SZ}"
