"""Binds the pods of a gang to nodes together, or none of them.

`GangSource`s say which pods are a gang: those of a Job (all that the Job wants to run now), unless it says
`muster.dev/gang: "false"`, and those that say that they are a group; any other pod stands alone. `muster.gang` decides;
here the cluster is followed, decisions are written, and what could not be placed waits, unlooked at, until something
happens that could help. Where there are elastic Jobs (`sizes`), what waits and what is free are also looked at
together, to see who should shrink or grow.

A gang of several pods is bound by several writes. Before the first, the intent is recorded on the object that carries
the gang, such as the Job (`muster.dev/binding-since`). A scheduler that starts finds half-bound gangs by it, and binds
the rest before it places anything new. Where the rest no longer fits, the bound ones are taken back (`halves`), so that
at rest a gang is there whole or not at all.

Here is the loop: what happens, what is looked at next (`agenda`), and where it goes. What is done for a gang that finds
no room is in `shortage`.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from muster.api.config import Scheduling
from muster.api.core import NAMESPACE, NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, Node, Pod
from muster.api.groups.policy import POD_DISRUPTION_BUDGET, PodDisruptionBudget
from muster.api.status import ApiError
from muster.api.values.durations import SECOND
from muster.controllers.elastic.placement import Sizes
from muster.controllers.gangs import SCHEDULERS, GangSource, Turn
from muster.controllers.scheduler.agenda import SHRINK_SECONDS, Agenda, Look
from muster.controllers.scheduler.ask import Ask
from muster.controllers.scheduler.auditing import Auditor
from muster.controllers.scheduler.binding import Binder
from muster.controllers.scheduler.capacityrequest import CapacityRequests
from muster.controllers.scheduler.carrier import Carrier, Carriers
from muster.controllers.scheduler.halves import Halves
from muster.controllers.scheduler.metrics import SchedulerMetrics
from muster.controllers.scheduler.pending import PendingGangs
from muster.controllers.scheduler.preemption import Preemptor
from muster.controllers.scheduler.roster import Roster
from muster.controllers.scheduler.shortage import Shortage
from muster.controllers.scheduler.telling import Teller
from muster.gang.elastic import Waiting
from muster.gang.nodes.capacity import Strategy
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

# A gang that lacks pods is given so long to get them before people are told.
LACKING_SECONDS = 1.0

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
        self._lacking: dict[str, tuple[float, str, str]] = {}  # gangs: since when they lack what, and what was said
        self._roster = roster = Roster(sources, names, Strategy(settings.scoring_strategy))
        self._binder = Binder(self._client, self._clock, roster)
        self._teller = Teller(self._client, recorder, self._clock)
        self._said = Carriers(self._carrier)
        self._pending = PendingGangs(roster, self._said.end, settings.overtakings)
        self._metrics = SchedulerMetrics(manager.registry, lambda: len(self._pending))
        self._sizes = Sizes(manager, recorder, names)
        self._agenda = Agenda(self._controller.queue, roster, self._pending, lambda: self._sizes.active)
        least = settings.minimum_run_time / SECOND
        self._preemptor = Preemptor(manager, recorder, roster, self._said.needs, least)
        self._halves = Halves(roster, self._pending, self._said, self._agenda, self._binder, self._teller, self._clock)
        self._requests: CapacityRequests | None = None
        if settings.provisioning_class_name:
            self._requests = CapacityRequests(manager, recorder, settings.provisioning_class_name, self._waits)
            manager.add(self._requests)
        self._shortage = Shortage(
            roster, self._pending, self._agenda, self._preemptor, self._halves, self._teller, self._sizes,
            self._requests, self._metrics, self._clock,
        )  # fmt: skip
        self._carriers = [
            (one, kind, manager.informer(kind, optional=one.optional)) for one in sources for kind in one.kinds
        ]
        self._auditor = Auditor(roster, manager.informer(NODE), manager.informer(POD), recorder, manager.registry)
        self._follow(manager)

    def _follow(self, manager: Manager) -> None:
        """Hear of what happens in the cluster."""
        around, roster = self._around_changed, self._roster
        manager.informer(POD_DISRUPTION_BUDGET, optional=True).on_change(self._budget_changed)
        manager.informer(NODE).on_change(self._node_changed)
        manager.informer(NAMESPACE).on_change(partial(around, roster.namespace_changed))
        manager.informer(PERSISTENT_VOLUME).on_change(partial(around, roster.volume_changed))
        manager.informer(PERSISTENT_VOLUME_CLAIM).on_change(partial(around, roster.claim_changed))
        manager.informer(POD).on_change(self._pod_changed)
        self._sizes.on_change(self._agenda.sizes)
        for source, _, carriers in self._carriers:
            carriers.on_change(partial(self._carrier_changed, source))

    async def run(self) -> None:
        """Finish what a predecessor left half done, then schedule."""
        for key, gang in self._roster.gangs.items():
            if self._said.half_bound(key, gang):
                self._agenda.repair(key)
        if self._preemptor.resume():
            self._agenda.evict()
        await super().run()

    # What happens in the cluster.

    def _freed(self) -> None:
        """Room came free, or something else happened that could help."""
        self._pending.freed()
        self._agenda.sweep()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self._agenda.audit()
        if self._roster.node_changed(old, new) or new is None:  # a gang at the head may never fit without it
            self._halves.node_changed((new if new is not None else old).metadata.name)  # type: ignore[union-attr]
            self._freed()

    def _around_changed(self, changed: Callable[[Any, Any], bool], old: Any | None, new: Any | None) -> None:
        if changed(old, new):
            self._freed()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._agenda.audit()
        change = self._roster.pod_changed(old, new)
        if new is None and old is not None:
            self._halves.forget_pod(old.metadata.uid)
            self._binder.forget(old.metadata.uid)
        if change.freed:
            self._freed()
        elif change.moved and self._pending.met_others():
            self._agenda.sweep()
        for key in {change.before, change.key}:
            gang = self._roster.gangs.get(key)
            if gang is None or not gang.unbound:
                self._forget(key)
        gang = self._roster.gangs.get(change.key)
        if gang is not None and gang.unbound and change.due:
            self._agenda.changed(change.key, gang)

    def _budget_changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        allowed = new.status.disruptions_allowed if new is not None else None
        if old is not None and (allowed is None or allowed > old.status.disruptions_allowed):
            self._pending.try_again()
            self._agenda.sweep()

    def _carrier_changed(self, source: GangSource[Any], old: Any | None, new: Any | None) -> None:
        key = source.key_of(new if new is not None else old)
        self._roster.carrier_changed(key)
        if (gang := self._roster.gangs.get(key)) and gang.unbound:
            self._agenda.changed(key, gang)

    def _forget(self, key: str) -> None:
        """The gang waits no more."""
        self._lacking.pop(key, None)
        self._halves.forget(key)
        if self._requests is not None:
            self._requests.forget(key)
        self._waits_no_more(key)

    def _waits_no_more(self, key: str) -> None:
        """The gang starts, or waits for something else than room: others need not wait for it, nor go."""
        if self._pending.forget(key):
            self._agenda.sweep()
            self._agenda.sizes()
        if self._preemptor.spare(key):
            self._agenda.evict()

    def _waits(self, key: str) -> bool:
        gang = self._roster.gangs.get(key)
        return gang is not None and bool(gang.unbound)

    # What to do about it.

    async def _reconcile(self, key: str) -> Result:
        match key:
            case Look.SWEEP:
                self._sweep()
            case Look.EVICT:
                await self._preemptor.evict()
            case Look.LATER:
                self._pending.try_again()
                self._agenda.sweep()
            case Look.AUDIT:
                self._agenda.audited()
                if not await self._auditor.audit():
                    self._freed()
            case Look.SHRINK | Look.GROW:
                return await self._look_at_sizes(grow=key == Look.GROW)
            case _ if key in self._roster.gangs:
                return await self._look_at(key)
        return None

    def _sweep(self) -> None:
        """Look again at the first gang of each class."""
        for key in self._pending.sweep():
            self._agenda.gang(key)
        self._agenda.sizes()

    async def _look_at(self, key: str) -> Result:
        """Place what is due of a gang."""
        rest = self._halves.rest(key)
        if rest > 0:
            self._waits_no_more(key)
            return rest
        await self._binder.settle(self._roster.gangs[key].unbound)
        carrier, due = self._said.due(key, self._roster)
        if not due.turns:
            self._waits_no_more(key)
            if due.lacking:
                await self._halves.look_at(key, carrier, due.lacking, may_change=True)
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
        return Ask.of(key, gang, turn, carrier, capacity, self._halves.closed(turn.pods))

    async def _place(self, ask: Ask) -> bool:
        """Bind these pods together if they may go. From the decision to the assignment no other task gets a turn."""
        capacity, now, began = self._roster.capacity, self._clock.now().timestamp(), self._clock.monotonic()
        outcome = self._pending.refusal(ask.alike) or ask.place(capacity)
        self._metrics.decided(self._clock.monotonic() - began)
        if isinstance(outcome, Refusal):
            self._pending.refused(ask.alike, outcome)
            await self._shortage.no_room(ask, outcome, now)
            return False
        if (kept := self._pending.kept_for_others(ask.key, ask.standing)) is not None:
            outcome = ask.place(capacity, kept)
            if isinstance(outcome, Refusal):
                await self._shortage.kept_for_victims(ask)
                return False
        if self._pending.head is not None:
            taken, end = taken_by(capacity, outcome.placement), ask.end(now)
            if (head := self._pending.kept_for(ask.key, ask.standing, taken, end, now)) is not None:
                await self._shortage.kept_for(head, ask, now)
                return False
        return await self._start(ask, outcome)

    async def _start(self, ask: Ask, chosen: Chosen) -> bool:
        """Bind pods to the nodes chosen for them, which they hold from now on."""
        bindings = ask.bindings(chosen)
        self._waits_no_more(ask.key)
        if self._requests is not None:
            self._requests.forget(ask.key)
        for pod, node in bindings:
            self._roster.assume(pod, node)
        if self._pending.met_others():
            self._agenda.sweep()
        try:
            if ask.carrier is not None and len(bindings) > 1 and not ask.gang.bound:
                # Pods that join a gang that runs, as replacements or as it grew, are no matter of all or nothing.
                await self._binder.record_intent(ask.carrier)
            refusals = await self._binder.bind(bindings)
        except (ApiError, TransportError):
            self._unassume(ask.key, bindings)
            raise
        self._agenda.sizes()
        if (alike := self._pending.next_alike(ask.alike)) is not None:
            self._agenda.gang(alike)
        if refusals:
            self._metrics.attempted("error", len(refusals))
            await self._halves.replan(ask, refusals)
            return False
        self._metrics.attempted("scheduled", len(bindings))
        self._teller.bound(bindings, ask.carrier)
        if len(bindings) < len(ask.turn.pods):  # those above the minimum wait each for itself
            if ask.carrier is not None and not ask.turn.surplus:
                await self._binder.forget_intent(ask.carrier)
            self._agenda.gang(ask.key)
        return True

    def _unassume(self, key: str, bindings: Sequence[tuple[Pod, str]]) -> None:
        """Pods that were surely not bound hold nothing."""
        gang = self._roster.gangs.get(key)
        for pod, _ in bindings:
            uid = pod.metadata.uid
            if gang is not None and uid in gang.unbound and not self._binder.may_be_bound(uid):
                self._roster.unassume(uid)
        self._freed()
