"""What is done for a gang that cannot start now: it waits and is told why; room is reserved for it, or made."""

from datetime import UTC, datetime
from functools import partial

from muster.controllers.elastic.placement import Sizes
from muster.controllers.scheduler.agenda import Agenda
from muster.controllers.scheduler.ask import Ask
from muster.controllers.scheduler.capacityrequest import CapacityRequests
from muster.controllers.scheduler.halves import REST_SECONDS, Halves
from muster.controllers.scheduler.metrics import SchedulerMetrics
from muster.controllers.scheduler.pending import Head, PendingGangs, Waiter
from muster.controllers.scheduler.preemption import Preemptor
from muster.controllers.scheduler.roster import Roster
from muster.controllers.scheduler.telling import Teller
from muster.gang.explain import explain
from muster.gang.nodes.holdings import Holdings
from muster.gang.order.preemption import Preemption, Protected
from muster.gang.placement import Refusal
from muster.runtime.clock import Clock
from muster.runtime.objects import split_key

# Gangs that could shrink for another are given so long to, before any is told to go.
PREEMPT_SECONDS = 1.0


class Shortage:
    """Acts for gangs that found no room. `_victims` and what it calls write nothing and let no other task run."""

    def __init__(
        self,
        roster: Roster,
        pending: PendingGangs,
        agenda: Agenda,
        preemptor: Preemptor,
        halves: Halves,
        teller: Teller,
        sizes: Sizes,
        requests: CapacityRequests | None,
        metrics: SchedulerMetrics,
        clock: Clock,
    ) -> None:
        self._roster = roster
        self._pending = pending
        self._agenda = agenda
        self._preemptor = preemptor
        self._halves = halves
        self._teller = teller
        self._sizes = sizes
        self._requests = requests
        self._metrics = metrics
        self._clock = clock

    async def no_room(self, ask: Ask, refusal: Refusal, now: float) -> None:
        """There is no room for a gang. If it is the first that waits, room is reserved for it, or made."""
        sentence, plan = explain(self._roster.capacity, refusal, sum(ask.fewest.values())), None
        if not ask.turn.surplus:
            plan, words = self._victims(ask, now)
            sentence += words + self._reserve(ask, now)
            if self._requests is not None and not self._pending.is_nominated(ask.key):
                self._requests.lacks(ask)
        self._wait(ask)
        self._agenda.sizes()
        if ask.closed:
            self._agenda.gang_after(ask.key, REST_SECONDS)
        if not self._pending.is_nominated(ask.key):
            await self._preemptor.nominate(ask, None)
            await self._halves.look_at(ask.key, ask.carrier, "the rest no longer fits")
        if plan is not None:
            self._metrics.preempted(self._preemptor.displace(ask, plan))
            self._agenda.evict()
            await self._preemptor.nominate(ask, plan.placement)
        await self._tell(ask, sentence)

    async def kept_for_victims(self, ask: Ask) -> None:
        """There is room, but others had to go from there for another gang."""
        await self._keep_back(ask, "The nodes are kept for a gang for which others had to go.")

    async def kept_for(self, head: Head, ask: Ask, now: float) -> None:
        """There is room, but the head would wait for longer."""
        name, expected = split_key(head.key)[0], _expected(head, now)
        await self._keep_back(ask, f"The nodes are kept for {name}, which goes first{expected}.")

    async def _keep_back(self, ask: Ask, sentence: str) -> None:
        self._wait(ask)
        await self._tell(ask, sentence)

    def _wait(self, ask: Ask) -> None:
        """From now on a gang waits."""
        self._metrics.attempted("unschedulable", len(ask.turn.pods))
        self._pending.wait(ask.key, Waiter(ask.alike, ask.standing))

    async def _tell(self, ask: Ask, sentence: str) -> None:
        """Say why a gang waits, unless that was said already."""
        if self._pending.told(ask.key) != sentence:
            await self._teller.waits(ask.turn.pods, ask.carrier, sentence)
            self._pending.tell(ask.key, sentence)

    def _reserve(self, ask: Ask, now: float) -> str:
        """Keep room for a gang if it is the first that waits; what is to be said of it."""
        waiter, placing = Waiter(ask.alike, ask.standing), partial(ask.placing, self._roster.capacity)
        before = self._pending.head
        never = self._pending.keep_for(ask.key, waiter, placing, now)
        if never is not None:
            if before is not None and self._pending.head is None:
                self._agenda.sweep()  # those that it kept from starting
            return " It would not fit either if all that ever ends had ended." if never.is_of_room else ""
        head = self._pending.head
        if head is None or head.key != ask.key:
            return ""
        if head.reservation.shadow is not None:  # then others have ended, or run for longer than was said
            self._agenda.sweep(max(head.reservation.shadow - now, 1.0))
        expected = _expected(head, now)
        return f" It goes first{expected}." if expected else ""

    def _victims(self, ask: Ask, now: float) -> tuple[Preemption | None, str]:
        """Who has to go for a gang, if weaker ones could; and what is to be said of it."""
        if self._sizes.active and self._pending.get(ask.key) is None:  # what can shrink need not go
            self._agenda.gang_after(ask.key, PREEMPT_SECONDS, ask.gang.priority)
            return None, ""
        if (words := self._pending.tried(ask.alike, ask.standing)) is not None:
            return None, words
        roster = self._roster
        leaving = Holdings.of(roster.capacity, [tuple(roster.going(now))]).freed()
        kept = self._pending.kept_for_others(ask.key, ask.standing)
        plan = self._preemptor.decide(ask, leaving if kept is None else leaving + kept, now)
        if isinstance(plan, Preemption):
            self._pending.nominate(ask.key, ask.standing, plan.placement)
            self._agenda.later(self._preemptor.gone_by(plan, now) - now)  # what is not gone by then is not counted upon
            if (alike := self._pending.next_alike(ask.alike)) is not None:  # there may be victims for it, too
                self._agenda.gang(alike)
            if not plan.victims:
                self._spare(ask.key)
                return None, " It starts when what is there has gone."
            count = sum(map(len, plan.victims.values()))
            return plan, f" {count} pods of lower priority were told to go for it."
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
        """None has to go for a gang any more, but those that were begun with."""
        if self._preemptor.spare(key):
            self._agenda.evict()


def _expected(head: Head, now: float) -> str:
    """When the head is expected to start, to follow what is said of it; empty if that is not known, or soon."""
    shadow = head.reservation.shadow
    if shadow is None or shadow <= now:
        return ""
    return f", expected at {datetime.fromtimestamp(shadow, UTC):%Y-%m-%dT%H:%M:%SZ}"
