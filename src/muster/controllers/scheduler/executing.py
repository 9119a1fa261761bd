"""Do what was decided about gangs that wait: publish it, record it, and write it."""

from dataclasses import dataclass

from muster.controllers.elastic.placement import Sizes
from muster.controllers.scheduler.ask import GangTurn
from muster.controllers.scheduler.binding import Binder, Refusals
from muster.controllers.scheduler.capacityrequest import CapacityRequests
from muster.controllers.scheduler.carrier import Carrier
from muster.controllers.scheduler.decisions import (
    DEVICES_DIFFER,
    NO_ROOM,
    NODES_KEPT,
    NODES_NOMINATED,
    PlacementRecorder,
)
from muster.controllers.scheduler.evicting import Evictor
from muster.controllers.scheduler.halves import TakeBack, close_refused_nodes, decide_take_back
from muster.controllers.scheduler.metrics import SchedulerMetrics
from muster.controllers.scheduler.pending import Head
from muster.controllers.scheduler.recovery import decide_give_back
from muster.controllers.scheduler.shortage import (
    add_waiter,
    describe_expected_start,
    find_victims,
    mark_victims,
    reserve_room,
)
from muster.controllers.scheduler.state import REST_SECONDS, SchedulerState
from muster.controllers.scheduler.telling import Teller
from muster.gang.demands import describe_demand
from muster.gang.explain import explain
from muster.gang.placement import Refusal
from muster.runtime.clock import Clock
from muster.runtime.objects import split_key


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor of the decisions about gangs that wait. requests: asks for more nodes, if that is on."""

    state: SchedulerState
    binder: Binder
    evictor: Evictor
    teller: Teller
    records: PlacementRecorder
    metrics: SchedulerMetrics
    sizes: Sizes
    requests: CapacityRequests | None
    clock: Clock

    async def wait_for_room(self, ask: GangTurn, refusal: Refusal, now: float) -> None:
        """Let a gang without room wait; if it is the first that waits, reserve room for it or preempt."""
        state = self.state
        sentence, plan = explain(state.roster.capacity, refusal, sum(ask.fewest.values()), ask.turn.demand), None
        if not ask.turn.surplus:
            plan, words = find_victims(state, ask, now, resizes=self.sizes.active)
            sentence += words + reserve_room(state, ask, now)
            if self.requests is not None and not state.pending.is_nominated(ask.key):
                self.requests.lacks(ask)
        self._add_waiter(ask)
        self.records.waits(ask, NO_ROOM, sentence)
        state.agenda.queue_size_decisions()
        if ask.closed:
            state.agenda.gang_after(ask.key, REST_SECONDS)
        if not state.pending.is_nominated(ask.key):
            await self.evictor.nominate(ask, None)
            await self.take_back_half(ask.key, ask.carrier, "the rest no longer fits")
        if plan is not None:
            self.records.preempts(ask, plan, state.roster.gangs)
            self.metrics.count_victims(mark_victims(state, ask, plan))
            await self.evictor.nominate(ask, plan.placement)
        await self._publish_wait(ask, sentence)

    async def wait_for_head(self, ask: GangTurn, head: Head | None, now: float) -> None:
        """Let a gang wait although there is room.

        The gang would delay the head, or victims freed the room for another gang.
        """
        if head is None:
            sentence = "The nodes are kept for a gang for which other pods were evicted."
            self.records.waits(ask, NODES_NOMINATED, sentence)
            await self._keep_back(ask, sentence)
            return
        name, expected = split_key(head.key)[0], describe_expected_start(head, now)
        sentence = f"The nodes are kept for {name}, which goes first{expected}."
        self.records.waits(ask, NODES_KEPT, sentence, name)
        await self._keep_back(ask, sentence)

    async def wait_for_devices(self, ask: GangTurn) -> None:
        """Let a gang wait for devices.

        There are enough, but no node has a set that suits the pod's claims together.
        """
        nodes = f"0/{len(self.state.roster.capacity)} nodes are available"
        sentence = f"{nodes}: no node has free devices that suit a claim together."
        self.records.waits(ask, DEVICES_DIFFER, sentence)
        await self._keep_back(ask, sentence, rest="the rest no longer fits")

    async def replan(self, ask: GangTurn, refusals: Refusals) -> None:
        """Place pods whose binding was refused on other nodes, or let their gang start over."""
        starts_over = close_refused_nodes(self.state, ask, refusals, self.clock.monotonic())
        refused = next(pod for pod in ask.turn.pods if pod.metadata.uid in refusals)
        node, why = refusals[refused.metadata.uid]
        sentence = f"{refused.metadata.name} could not be bound to {node}: {why}"
        self.teller.warn("FailedBinding", refused, ask.carrier, sentence)
        if starts_over:
            await self.take_back_half(ask.key, ask.carrier, sentence)

    async def take_back_half(self, key: str, carrier: Carrier | None, why: str, *, may_change: bool = False) -> None:
        """Delete the bound pods of a half-bound gang whose rest cannot be placed now, at once or after some time.

        why: the reason that the rest cannot be placed, for users.
        may_change: missing pods of the gang may still be created, so the gang gets its patience first.
        """
        state = self.state
        decision = decide_take_back(state, key, why, self.clock.monotonic(), may_change=may_change)
        if decision is None:
            return
        # The carrier shows that a start is complete only after that was written.
        gang = state.roster.gangs[key]
        if carrier is not None and not state.carriers.half_bound(key, gang, await self.binder.read(carrier)):
            return
        await self._take_back(decision, carrier)

    async def _take_back(self, decision: TakeBack, carrier: Carrier | None) -> None:
        if decision.again:
            if carrier is not None:
                self.teller.say("GangTakenBack", carrier, f"{decision.why}: starting over")
        else:
            message = (
                f"{decision.why}: they were deleted, as a gang is bound whole or not at all; no controller recreates"
                " them"
            )
            if carrier is not None:
                await self.binder.record_loss(carrier, message)
                self.teller.say("GangTakenBack", carrier, message)
            for pod in decision.pods:
                self.teller.warn("GangTakenBack", pod, None, message)
        await self.binder.take_back(decision.pods)

    async def _keep_back(
        self, ask: GangTurn, sentence: str, rest: str = "the nodes for the rest are kept for another gang"
    ) -> None:
        """Add a gang to the waiting ones, take its half back if half of it is bound, and publish why it waits.

        sentence: the reason, for users. rest: the reason why the other half is not bound.
        """
        self._add_waiter(ask)
        await self.take_back_half(ask.key, ask.carrier, rest)
        await self._publish_wait(ask, sentence)

    def _add_waiter(self, ask: GangTurn) -> None:
        self.metrics.count_attempts("unschedulable", len(ask.turn.pods))
        add_waiter(self.state, ask)

    async def _publish_wait(self, ask: GangTurn, sentence: str) -> None:
        """Publish why a gang waits, and for which demand, unless that is published already."""
        sentence = " ".join(filter(None, (sentence, describe_demand(ask.turn.demand, len(ask.turn.pods)))))
        if ask.turn.repairs:
            sentence += self._give_back(ask)
        if self.state.pending.get_published_reason(ask.key) != sentence:
            await self.teller.waits(ask.turn.pods, ask.carrier, sentence)
            self.state.pending.record_published_reason(ask.key, sentence)

    def _give_back(self, ask: GangTurn) -> str:
        """Let a broken gang give its nodes back at its time; return what to publish about that."""
        sentence, message = decide_give_back(self.state, ask, self.clock.monotonic(), self.clock.now())
        if message:
            self.records.gives_back(ask, self.state.rules.recovery_timeout)
            if ask.carrier is not None:
                self.teller.say("GangTakenBack", ask.carrier, f"{message}: starting over")
        return sentence
