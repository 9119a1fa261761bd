"""Execute the decisions about gangs that wait: events and conditions, records, evictions, deletions, reservations.

`shortage`, `halves` and `recovery` decide. `scheduler` executes the start of a gang.
"""

from msgspec import Struct

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


class Executor(Struct, frozen=True):
    """The executor of decisions about waiting gangs.

    requests: creates ProvisioningRequests for an autoscaler; None if that feature is off.
    """

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
        """Let a gang that does not fit wait: preempt for it, reserve room if it comes first, and publish the reason."""
        state = self.state
        sentence, plan = explain(state.roster.capacity, refusal, sum(ask.fewest.values()), ask.turn.demand), None
        if not ask.turn.surplus:
            plan, words = find_victims(state, ask, now, resizes=self.sizes.has_elastic_jobs)
            sentence += words + reserve_room(state, ask, now)
            if self.requests is not None and not state.pending.is_nominated(ask.key):
                self.requests.record_lack(ask)
        self._add_waiter(ask)
        self.records.record_wait(ask, NO_ROOM, sentence)
        state.agenda.queue_size_decisions()
        if ask.closed:
            state.agenda.gang_after(ask.key, REST_SECONDS)
        if not state.pending.is_nominated(ask.key):
            await self.evictor.nominate(ask, None)
            await self.take_back_half(ask.key, ask.carrier, "the rest no longer fits")
        if plan is not None:
            self.records.record_preemption(ask, plan, state.roster.gangs)
            self.metrics.count_victims(mark_victims(state, ask, plan))
            await self.evictor.nominate(ask, plan.placement)
        await self._publish_wait(ask, sentence)

    async def wait_for_head(self, ask: GangTurn, head: Head | None, now: float) -> None:
        """Let a gang that fits wait, because the room is reserved, and publish for which gang.

        head: the gang that would be delayed; None if victims freed the room for other gangs.
        """
        if head is None:
            sentence = "The nodes are kept for a gang for which other pods were evicted."
            self.records.record_wait(ask, NODES_NOMINATED, sentence)
            await self._keep_back(ask, sentence)
            return
        name, expected = split_key(head.key)[0], describe_expected_start(head, now)
        sentence = f"The nodes are kept for {name}, which goes first{expected}."
        self.records.record_wait(ask, NODES_KEPT, sentence, name)
        await self._keep_back(ask, sentence)

    async def wait_for_devices(self, ask: GangTurn) -> None:
        """Let a gang wait because no node has a set of free devices that satisfies a pod's claims together."""
        nodes = f"0/{len(self.state.roster.capacity)} nodes are available"
        sentence = f"{nodes}: no node has free devices that suit a claim together."
        self.records.record_wait(ask, DEVICES_DIFFER, sentence)
        await self._keep_back(ask, sentence, rest="the rest no longer fits")

    async def replan(self, ask: GangTurn, refusals: Refusals) -> None:
        """Exclude the nodes to which the server refused to bind pods, record an event, and queue the gang again.

        After too many refusals, delete the gang's bound pods instead, so that the gang starts over.
        """
        starts_over = close_refused_nodes(self.state, ask, refusals, self.clock.monotonic())
        refused = next(pod for pod in ask.turn.pods if pod.metadata.uid in refusals)
        node, why = refusals[refused.metadata.uid]
        sentence = f"{refused.metadata.name} could not be bound to {node}: {why}"
        self.teller.warn("FailedBinding", refused, ask.carrier, sentence)
        if starts_over:
            await self.take_back_half(ask.key, ask.carrier, sentence)

    async def take_back_half(self, key: str, carrier: Carrier | None, why: str, *, may_change: bool = False) -> None:
        """Delete the bound pods of a half-bound gang whose unbound pods fit nowhere, at once or after a delay.

        Do nothing if the gang is not half bound.

        why: why the unbound pods fit nowhere, for users.
        may_change: whether missing pods of the gang may still be created; if so, the gang first gets its `patience`.
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
                self.teller.record_event("GangTakenBack", carrier, f"{decision.why}: starting over")
        else:
            message = (
                f"{decision.why}: they were deleted, as a gang is bound whole or not at all; no controller recreates"
                " them"
            )
            if carrier is not None:
                await self.binder.record_loss(carrier, message)
                self.teller.record_event("GangTakenBack", carrier, message)
            for pod in decision.pods:
                self.teller.warn("GangTakenBack", pod, None, message)
        await self.binder.take_back(decision.pods)

    async def _keep_back(
        self, ask: GangTurn, sentence: str, rest: str = "the nodes for the rest are kept for another gang"
    ) -> None:
        """Add a gang to the waiting gangs, delete its bound pods if it is half bound, and publish why it waits.

        sentence: why it waits, for users.
        rest: why its unbound pods are not bound, for users.
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
            await self.teller.publish_wait(ask.turn.pods, ask.carrier, sentence)
            self.state.pending.record_published_reason(ask.key, sentence)

    def _give_back(self, ask: GangTurn) -> str:
        """Choose the pods of a broken gang for eviction if it has waited too long; return the sentence to publish."""
        sentence, message = decide_give_back(self.state, ask, self.clock.monotonic(), self.clock.now())
        if message:
            self.records.record_return_of_nodes(ask, self.state.rules.recovery_timeout)
            if ask.carrier is not None:
                self.teller.record_event("GangTakenBack", ask.carrier, f"{message}: starting over")
        return sentence
