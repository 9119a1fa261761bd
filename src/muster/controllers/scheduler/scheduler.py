"""Binds the pods of a gang to nodes together, or none of them.

`GangSource`s say which pods are a gang: those of a Job (all that the Job wants to run now), unless it says
`muster.dev/gang: "false"`, and those that say that they are a group; any other pod stands alone. `muster.gang` decides;
here the cluster is followed, decisions are written, and what could not be placed waits, unlooked at, until something
happens that could help. Where there are elastic Jobs (`sizes`), what waits and what is free are also looked at
together, to see who should shrink or grow.

A gang of several pods is bound by several writes. Before the first, the intent is recorded on the object that carries
the gang, such as the Job (`muster.dev/binding-since`). A scheduler that starts finds half-bound gangs by it, and binds
the rest before it places anything new. Where the rest no longer fits, the bound ones are deleted, and the gang waits
whole again. The pods of a group would not be made anew: of those the rest goes first, and if it does not fit, waits for
room.
"""

from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from muster.api.config import Scheduling
from muster.api.core import NAMESPACE, NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, Node, Pod
from muster.api.durations import SECOND
from muster.api.policy import POD_DISRUPTION_BUDGET, PodDisruptionBudget
from muster.api.status import ApiError
from muster.controllers.elastic.placement import Sizes
from muster.controllers.gangs import (
    LOWEST_PRIORITY,
    SCHEDULERS,
    Gang,
    GangSource,
    Turn,
)
from muster.controllers.scheduler.ask import Ask
from muster.controllers.scheduler.auditing import Auditor
from muster.controllers.scheduler.binding import Binder, Refusals, come_again
from muster.controllers.scheduler.capacityrequest import CapacityRequests
from muster.controllers.scheduler.carrier import Carrier, Carriers
from muster.controllers.scheduler.metrics import SchedulerMetrics
from muster.controllers.scheduler.pending import Head, PendingGangs, Waiter
from muster.controllers.scheduler.preemption import Preemptor
from muster.controllers.scheduler.roster import Roster
from muster.controllers.scheduler.telling import Teller
from muster.gang.elastic import Waiting
from muster.gang.explain import explain
from muster.gang.nodes.capacity import Strategy
from muster.gang.nodes.holdings import Holdings
from muster.gang.order.preemption import Preemption, Protected
from muster.gang.placement import Refusal, taken_by
from muster.gang.quorum import Chosen
from muster.gang.shapes import count_shapes
from muster.runtime.controller import Result
from muster.runtime.events.recorder import Recorder
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of, split_key
from muster.runtime.reconciler import Reconciler
from muster.runtime.transport import TransportError

# Gangs bound side by side: enough to fill the server's group commits.
WORKERS = 16

# Room that opens up is looked at in gusts: one sweep over the waiting gangs for all that came in this time.
SWEEP_SECONDS = 0.02
_EVICT = "evict"
_LATER = "later"  # some that had to be left alone may be told to go
_SWEEP = "sweep"  # a key that no gang has: theirs have a slash


# So long a gang is given for each of its pods before it is looked at, as that costs as much.
GATHER_SECONDS = 0.00002

# A gang that lacks pods is given so long to get them before people are told.
LACKING_SECONDS = 1.0

# Nodes to which the server would not have a pod bound, before its gang is given back.
MOST_REFUSED = 3
REST_SECONDS = 60.0

# Who should shrink is seen soon, after everything else that is to be done. Room to grow is gathered for longer: a
# gang that ends leaves pod by pod, and each change of size costs a running program something.
SHRINK_SECONDS = 0.1
GROW_SECONDS = 5.0
_SHRINK, _GROW = "shrink", "grow"

# While things change, what is believed of them is held against them so often.
AUDIT_SECONDS = 60.0
_AUDIT = "audit"

# Gangs that could shrink for another are given so long to, before any is told to go.
PREEMPT_SECONDS = 1.0

# What is half there goes before every priority that a pod can have.
_REPAIR_PRIORITY = 2**31


_DEFAULT = Scheduling()


class Scheduler(Reconciler):
    """Runs under a `Manager`; schedules the pods whose `schedulerName` is one of `names`.

    sources: where gangs come from; the first that has a pod's gang has it.
    """

    name = "scheduler"

    def __init__(
        self,
        manager: Manager,
        recorder: Recorder,
        sources: Sequence[GangSource[Any]],
        *,
        names: frozenset[str] = SCHEDULERS,
        settings: Scheduling = _DEFAULT,
    ) -> None:
        super().__init__(manager, workers=WORKERS)
        self._roster = Roster(sources, names, Strategy(settings.scoring_strategy))
        self._binder = Binder(self._client, self._clock, self._roster)
        self._teller = Teller(self._client, recorder, self._clock)
        self._said = Carriers(self._carrier)
        self._pending = PendingGangs(self._roster, self._said.end, settings.overtakings)
        self._preemptor = Preemptor(
            manager, recorder, self._roster, self._said.needs, settings.minimum_run_time / SECOND
        )
        manager.informer(POD_DISRUPTION_BUDGET, optional=True).on_change(self._budget_changed)
        self._metrics = SchedulerMetrics(manager.registry, lambda: len(self._pending))
        self._lacking: dict[str, tuple[float, str, str]] = {}  # gangs: since when they lack what, and what was said
        self._closed: dict[str, dict[str, float]] = {}  # nodes to which a pod was not bound, by its UID: until when
        self._resting: dict[str, float] = {}  # gangs that were given back, and until when they are left alone
        self._pods = manager.informer(POD)
        self._sizes = Sizes(manager, recorder, names)
        self._carriers = [
            (one, kind, manager.informer(kind, optional=one.optional)) for one in sources for kind in one.kinds
        ]
        nodes = manager.informer(NODE)
        nodes.on_change(self._node_changed)
        manager.informer(NAMESPACE).on_change(partial(self._around_changed, self._roster.namespace_changed))
        manager.informer(PERSISTENT_VOLUME).on_change(partial(self._around_changed, self._roster.volume_changed))
        claims = manager.informer(PERSISTENT_VOLUME_CLAIM)
        claims.on_change(partial(self._around_changed, self._roster.claim_changed))
        self._requests: CapacityRequests | None = None
        if settings.provisioning_class_name:
            self._requests = CapacityRequests(manager, recorder, settings.provisioning_class_name, self._waits)
            manager.add(self._requests)
        self._auditor = Auditor(self._roster, nodes, self._pods, recorder, manager.registry)
        self._audit_is_due = False
        self._pods.on_change(self._pod_changed)
        self._sizes.on_change(self._sizes_soon)
        for source, _, carriers in self._carriers:
            carriers.on_change(partial(self._carrier_changed, source))

    async def run(self) -> None:
        """Finish what a predecessor left half done, then schedule."""
        for key, gang in self._roster.gangs.items():
            without_carrier = gang.source is not None and not gang.source.kinds
            if self._said.half_bound(key, gang) or (gang.bound and without_carrier):
                self._controller.queue.add(key, _REPAIR_PRIORITY)
        await super().run()

    # What happens in the cluster.

    def _audit_soon(self) -> None:
        """Something changed: look in a while whether it was recorded rightly. Where nothing changes nothing is done."""
        if not self._audit_is_due:
            self._audit_is_due = True
            self._controller.queue.add_after(_AUDIT, AUDIT_SECONDS, LOWEST_PRIORITY)

    async def _audit(self) -> None:
        self._audit_is_due = False
        if not await self._auditor.audit():
            self._pending.freed()
            self._sweep_soon()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self._audit_soon()
        if self._roster.node_changed(old, new) or new is None:  # a gang at the head may never fit without it
            for nodes in self._closed.values():
                nodes.pop((new if new is not None else old).metadata.name, None)  # type: ignore[union-attr]
            self._pending.freed()
            self._sweep_soon()

    def _around_changed(self, changed: Callable[[Any, Any], bool], old: Any | None, new: Any | None) -> None:
        if changed(old, new):
            self._pending.freed()
            self._sweep_soon()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._audit_soon()
        change = self._roster.pod_changed(old, new)
        if new is None and old is not None:
            self._closed.pop(old.metadata.uid, None)
            self._binder.forget(old.metadata.uid)
        if change.freed:
            self._pending.freed()
            self._sweep_soon()
        elif change.moved and self._pending.met_others():
            self._sweep_soon()
        for key in {change.before, change.key}:
            gang = self._roster.gangs.get(key)
            if gang is None or not gang.unbound:
                self._forget(key)
        gang = self._roster.gangs.get(change.key)
        if gang is not None and gang.unbound and change.due:
            self._soon(change.key, gang)

    def _budget_changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        allowed = new.status.disruptions_allowed if new is not None else None
        if old is not None and (allowed is None or allowed > old.status.disruptions_allowed):
            self._pending.try_again()
            self._sweep_soon()

    def _carrier_changed(self, source: GangSource[Any], old: Any | None, new: Any | None) -> None:
        key = source.key_of(new if new is not None else old)
        self._roster.carrier_changed(key)
        if (gang := self._roster.gangs.get(key)) and gang.unbound:
            self._soon(key, gang)

    def _soon(self, key: str, gang: Gang) -> None:
        """Look at a gang, but at one whose pods come one by one no oftener than it costs."""
        self._controller.queue.add_after(key, GATHER_SECONDS * (len(gang.unbound) + len(gang.bound)), gang.priority)

    def _forget(self, key: str) -> None:
        """The gang waits no more."""
        self._lacking.pop(key, None)
        self._resting.pop(key, None)
        if self._requests is not None:
            self._requests.forget(key)
        if self._pending.forget(key):
            self._sweep_soon()  # those that it kept from starting
            self._sizes_soon()

    def _waits(self, key: str) -> bool:
        gang = self._roster.gangs.get(key)
        return gang is not None and bool(gang.unbound)

    def _sweep_soon(self) -> None:
        if self._pending or self._sizes.active:
            self._controller.queue.add_after(_SWEEP, SWEEP_SECONDS)

    def _sizes_soon(self) -> None:
        if self._sizes.active:
            self._controller.queue.add_after(_SHRINK, SHRINK_SECONDS, LOWEST_PRIORITY)
            self._controller.queue.add_after(_GROW, GROW_SECONDS, LOWEST_PRIORITY)

    # What to do about it.

    async def _reconcile(self, key: str) -> Result:
        if key == _SWEEP:
            self._sweep()
            return None
        if key == _EVICT:
            await self._preemptor.evict()
            return None
        if key == _LATER:
            self._pending.try_again()
            self._sweep_soon()
            return None
        if key == _AUDIT:
            await self._audit()
            return None
        if key in (_SHRINK, _GROW):
            return await self._look_at_sizes(grow=key == _GROW)
        if key in self._roster.gangs:
            return await self._look_at(key)
        return None

    def _sweep(self) -> None:
        """Look again at the first gang of each class."""
        for key in self._pending.sweep():
            self._look_soon(key)
        self._sizes_soon()

    def _look_soon(self, key: str) -> None:
        waiter, gang = self._pending.get(key), self._roster.gangs.get(key)
        if gang is not None:
            broken = waiter is not None and waiter.standing.broken
            self._controller.queue.add(key, _REPAIR_PRIORITY if broken else gang.priority)

    def _now(self) -> float:
        return self._clock.now().timestamp()

    async def _look_at(self, key: str) -> Result:
        """Place what is due of a gang."""
        rest = self._resting.get(key, 0.0) - self._clock.monotonic()
        if rest > 0:
            if self._pending.forget(key):
                self._sweep_soon()
            return rest
        await self._binder.settle(self._roster.gangs[key].unbound)
        carrier, due = self._said.due(key, self._roster)
        if not due.turns:
            if self._pending.forget(key):  # it waits for something else now: others need not wait for it
                self._sweep_soon()
            return self._lacks(key, due.lacking, carrier)
        self._lacking.pop(key, None)
        refused: set[Hashable] = set()
        for turn in due.turns:
            # Of pods that go one by one, those like one that found no room find none either.
            ask = self._ask(key, turn, carrier)
            if ask is not None and ask.alike not in refused and not await self._place(ask):
                refused.add(ask.alike)
        return None

    def _carrier(self, source: GangSource[Any], key: str) -> Carrier | None:
        for one, kind, carriers in self._carriers:
            if one is source and (found := carriers.get(split_key(key)[0])) and source.key_of(found) == key:
                return Carrier(kind, found)
        return None

    def _lacks(self, key: str, sentence: str, carrier: Carrier | None) -> Result:
        """A gang lacks pods, or its carrier. People are told once it has lacked the same for a while."""
        gang, now = self._roster.gangs.get(key), self._clock.monotonic()
        if not sentence or gang is None or not gang.unbound:
            self._lacking.pop(key, None)
            return None
        since, lacked, told = self._lacking.get(key, (now, sentence, ""))
        if lacked != sentence:
            since = now
        waits = sentence != told and since + LACKING_SECONDS > now
        self._lacking[key] = since, sentence, told if waits else sentence
        if waits:
            return since + LACKING_SECONDS - now
        if sentence != told:
            self._teller.warn("Unschedulable", next(iter(gang.unbound.values())), carrier, sentence)
        return None

    async def _look_at_sizes(self, *, grow: bool) -> Result:
        waiting = []
        for key in self._pending.in_order():
            carrier, due = self._said.due(key, self._roster)
            if due.turns:
                first = due.turns[0].pods
                name = key_of(carrier.object if carrier is not None else first[0])
                priority = self._roster.gangs[key].priority
                shapes = count_shapes(first, self._roster.capacity.watched)
                waiting.append(Waiting(key, name, priority, shapes, len(due.turns)))
        roster = self._roster
        again = await self._sizes.look(roster.capacity, roster.gangs, roster.leaving, waiting, grow=grow)
        return SHRINK_SECONDS if again else None

    def _ask(self, key: str, turn: Turn, carrier: Carrier | None) -> Ask | None:
        """What a turn asks for; None if its pods are no longer to be placed: that is looked at next."""
        capacity, gang = self._roster.capacity, self._roster.gangs.get(key)
        if gang is None or not all(pod.metadata.uid in gang.unbound for pod in turn.pods):
            return None
        if sum(self._roster.unassume(pod.metadata.uid) for pod in turn.pods):  # by an attempt that was cut off
            self._pending.freed()
        now = self._clock.monotonic()
        closed = frozenset(
            node for pod in turn.pods for node, until in self._closed.get(pod.metadata.uid, {}).items() if until > now
        )
        return Ask.of(key, gang, turn, carrier, capacity, closed)

    async def _place(self, ask: Ask) -> bool:
        """Bind these pods together if they may go. From the decision to the assignment no other task gets a turn."""
        capacity, now, began = self._roster.capacity, self._now(), self._clock.monotonic()
        outcome = self._pending.refusal(ask.alike) or ask.place(capacity)
        self._metrics.decided(self._clock.monotonic() - began)
        if isinstance(outcome, Refusal):
            self._pending.refused(ask.alike, outcome)
            return await self._no_room(ask, outcome, now)
        if (kept := self._pending.kept_for_others(ask.key, ask.standing)) is not None:
            outcome = ask.place(capacity, kept)
            if isinstance(outcome, Refusal):
                return await self._keep_back(ask, "The nodes are kept for a gang for which others had to go.")
        if self._pending.head is not None:
            taken, end = taken_by(capacity, outcome.placement), ask.end(now)
            if (head := self._pending.kept_for(ask.key, ask.standing, taken, end, now)) is not None:
                name = split_key(head.key)[0]
                expected = self._expected(head, now)
                return await self._keep_back(ask, f"The nodes are kept for {name}, which goes first{expected}.")
        return await self._start(ask, outcome)

    async def _start(self, ask: Ask, chosen: Chosen) -> bool:
        """Bind pods to the nodes chosen for them, which they hold from now on."""
        bindings = ask.bindings(chosen)
        if self._pending.forget(ask.key):
            self._sweep_soon()
        if self._requests is not None:
            self._requests.forget(ask.key)
        for pod, node in bindings:
            self._roster.assume(pod, node)
        if self._pending.met_others():
            self._sweep_soon()
        try:
            if ask.carrier is not None and len(bindings) > 1 and not ask.gang.bound:
                # Pods that join a gang that runs, as replacements or as it grew, are no matter of all or nothing.
                await self._binder.record_intent(ask.carrier)
            refusals = await self._binder.bind(bindings)
        except (ApiError, TransportError):
            self._unassume(ask.key, bindings)
            raise
        self._sizes_soon()
        if (alike := self._pending.next_alike(ask.alike)) is not None:
            self._look_soon(alike)
        if refusals:
            self._metrics.attempted("error", len(refusals))
            await self._replan(ask, refusals)
            return False
        self._metrics.attempted("scheduled", len(bindings))
        self._teller.bound(bindings, ask.carrier)
        if len(bindings) < len(ask.turn.pods):  # those above the minimum wait each for itself
            self._controller.queue.add(ask.key, ask.gang.priority)
        return True

    def _unassume(self, key: str, bindings: Sequence[tuple[Pod, str]]) -> None:
        """Pods that were surely not bound hold nothing."""
        gang = self._roster.gangs.get(key)
        for pod, _ in bindings:
            uid = pod.metadata.uid
            if gang is not None and uid in gang.unbound and not self._binder.may_be_bound(uid):
                self._roster.unassume(uid)
        self._pending.freed()
        self._sweep_soon()

    async def _keep_back(self, ask: Ask, sentence: str) -> bool:
        """There is room, but not for this gang."""
        self._wait(ask)
        await self._tell(ask, sentence)
        return False

    async def _no_room(self, ask: Ask, refusal: Refusal, now: float) -> bool:
        """There is no room for a gang: it waits. If it is the first to, room is reserved for it, or made."""
        sentence, plan = explain(self._roster.capacity, refusal, sum(ask.fewest.values())), None
        if not ask.turn.surplus:
            plan, words = self._victims(ask, now)
            sentence += words + self._reserve(ask, now)
            if self._requests is not None and not self._pending.is_nominated(ask.key):
                self._requests.lacks(ask)
        half = [] if self._pending.is_nominated(ask.key) else self._said.half_bound(ask.key, ask.gang)
        self._wait(ask)
        self._sizes_soon()
        if ask.closed:
            self._controller.queue.add_after(ask.key, REST_SECONDS)
        if half and ask.carrier is not None:
            await self._give_back(half, ask.carrier, "the rest no longer fits")
        if plan is not None:
            self._metrics.preempted(self._preemptor.displace(ask, plan))
            self._controller.queue.add(_EVICT, _REPAIR_PRIORITY)
            await self._preemptor.nominate(ask, plan)
        await self._tell(ask, sentence)
        return False

    def _reserve(self, ask: Ask, now: float) -> str:
        """Keep room for a gang if it is the first that waits; what is to be said of it."""
        waiter, placing = Waiter(ask.alike, ask.standing), partial(ask.placing, self._roster.capacity)
        before = self._pending.head
        never = self._pending.keep_for(ask.key, waiter, placing, now)
        if never is not None:
            if before is not None and self._pending.head is None:
                self._sweep_soon()  # those that it kept from starting
            return " It would not fit either if all that ever ends had ended." if never.is_of_room else ""
        head = self._pending.head
        if head is None or head.key != ask.key:
            return ""
        if head.reservation.shadow is not None:  # then others have ended, or run for longer than was said
            self._controller.queue.add_after(_SWEEP, max(head.reservation.shadow - now, 1.0))
        expected = self._expected(head, now)
        return f" It goes first{expected}." if expected else ""

    def _victims(self, ask: Ask, now: float) -> tuple[Preemption | None, str]:
        """Who has to go for a gang, if weaker ones could; and what is to be said of it."""
        if self._sizes.active and self._pending.get(ask.key) is None:  # what can shrink need not go
            self._controller.queue.add_after(ask.key, PREEMPT_SECONDS, ask.gang.priority)
            return None, ""
        if (words := self._pending.tried(ask.alike, ask.standing)) is not None:
            return None, words
        roster = self._roster
        leaving = Holdings.of(roster.capacity, [tuple(roster.leaving)]).freed()
        kept = self._pending.kept_for_others(ask.key, ask.standing)
        plan = self._preemptor.decide(ask, leaving if kept is None else leaving + kept, now)
        if isinstance(plan, Preemption):
            self._pending.nominate(ask.key, ask.standing, plan.placement)
            if not plan.victims:
                return None, " It starts when what is there has gone."
            if (alike := self._pending.next_alike(ask.alike)) is not None:  # there may be victims for it, too
                self._look_soon(alike)
            count = sum(map(len, plan.victims.values()))
            return plan, f" {count} pods of lower priority were told to go for it."
        if self._pending.withdraw(ask.key):
            self._sweep_soon()
        if (until := self._preemptor.protected_until(ask, now)) is not None:
            self._controller.queue.add_after(_LATER, until - now)
        words = ""
        if isinstance(plan, Protected):
            words = f" Pods of lower priority are protected by PodDisruptionBudget {', '.join(plan.budgets)}."
        self._pending.try_no_more(ask.alike, ask.standing, words)
        return None, words

    def _wait(self, ask: Ask) -> None:
        """From now on a gang waits."""
        self._metrics.attempted("unschedulable", len(ask.turn.pods))
        self._pending.wait(ask.key, Waiter(ask.alike, ask.standing))

    async def _tell(self, ask: Ask, sentence: str) -> None:
        """Say why a gang waits, unless that was said already."""
        if self._pending.told(ask.key) != sentence:
            await self._teller.waits(ask.turn.pods, ask.carrier, sentence)
            self._pending.tell(ask.key, sentence)

    def _expected(self, head: Head, now: float) -> str:
        """When the head is expected to start, to follow what is said of it; empty if that is not known, or soon."""
        shadow = head.reservation.shadow
        if shadow is None or shadow <= now:
            return ""
        return f", expected at {datetime.fromtimestamp(shadow, UTC):%Y-%m-%dT%H:%M:%SZ}"

    # What is half done.

    async def _replan(self, ask: Ask, refusals: Refusals) -> None:
        """The server will not have some pods where they were to go: they go elsewhere, or their gang starts over."""
        for uid, (node, _) in refusals.items():
            self._roster.unassume(uid)
            self._closed.setdefault(uid, {})[node] = self._clock.monotonic() + REST_SECONDS
        self._pending.freed()
        self._sweep_soon()
        refused = [pod for pod in ask.turn.pods if pod.metadata.uid in refusals]
        node, why = refusals[refused[0].metadata.uid]
        sentence = f"{refused[0].metadata.name} could not be bound to {node}: {why}"
        self._teller.warn("FailedBinding", refused[0], ask.carrier, sentence)
        if max(len(self._closed.get(uid, ())) for uid in refusals) < MOST_REFUSED:
            self._controller.queue.add(ask.key, _REPAIR_PRIORITY)
            return
        self._resting[ask.key] = self._clock.monotonic() + REST_SECONDS
        for uid in refusals:
            self._closed.pop(uid, None)
        self._controller.queue.add_after(ask.key, REST_SECONDS)
        gang = self._roster.gangs.get(ask.key)
        if ask.carrier is not None and gang is not None and (half := self._said.half_bound(ask.key, gang)):
            await self._give_back(half, ask.carrier, sentence)

    async def _give_back(self, pods: Sequence[Pod], carrier: Carrier, why: str) -> None:
        """Delete the bound part of a gang, if it comes again. Otherwise it waits for the rest, which goes first."""
        if come_again(pods):
            message = f"{len(pods)} pods of the gang were bound, and {why}: starting over"
            self._teller.say("GangTakenBack", carrier, message)
            await self._binder.take_back(pods)
