"""Binds the pods of a gang to nodes together, or none of them.

`GangSource`s decide which pods are a gang. The pods of a Job that it wants to run now are one, unless the Job has
`muster.dev/gang: "false"`. Pods that name a group are one, too. Any other pod is alone. `muster.gang` decides
placement. This module follows the cluster and writes decisions. Gangs that could not be placed wait, without further
work, until a change could help them. If there are elastic Jobs (`sizes`), waiting gangs and free room are also
considered together, to decide which Jobs shrink or grow.

A gang of several pods is bound by several writes. Each write records the intent on its pod
(`muster.dev/binding-since`). A scheduler that starts finds half-bound gangs by the intent, and binds the rest before it
places anything new. If the rest no longer fits, or the gang's carrier is gone, the bound pods are deleted (`halves`).
So at rest a gang is bound whole or not at all.

This module is the loop: it handles events, reconciles what is next (`agenda`), and places it. `shortage` handles gangs
that find no room.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any

from muster.api.config import Scheduling
from muster.api.core import NAMESPACE, NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, Node, Pod
from muster.api.groups.policy import POD_DISRUPTION_BUDGET, PodDisruptionBudget
from muster.api.groups.resource import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from muster.api.status import ApiError
from muster.api.values.durations import SECOND
from muster.controllers.decisionlog import DecisionLog
from muster.controllers.elastic.placement import Sizes
from muster.controllers.gangs import SCHEDULERS, Due, Gang, GangSource, Turn, is_counted, shrunk_to
from muster.controllers.intents import read_intent
from muster.controllers.scheduler.agenda import SHRINK_SECONDS, SWEEP_SECONDS, Agenda, Look
from muster.controllers.scheduler.ask import Ask
from muster.controllers.scheduler.binding import Binder
from muster.controllers.scheduler.capacityrequest import CapacityRequests
from muster.controllers.scheduler.carrier import Carrier, Carriers
from muster.controllers.scheduler.deciding import Kept, decide_start
from muster.controllers.scheduler.decisions import PlacementRecorder
from muster.controllers.scheduler.donejobs import DoneJobs
from muster.controllers.scheduler.halves import Halves
from muster.controllers.scheduler.metrics import SchedulerMetrics
from muster.controllers.scheduler.pending import PendingGangs
from muster.controllers.scheduler.preemption import Preemptor
from muster.controllers.scheduler.recovery import Recovery
from muster.controllers.scheduler.roster import Roster
from muster.controllers.scheduler.shortage import Shortage
from muster.controllers.scheduler.telling import Teller
from muster.gang.demands import Demand
from muster.gang.elastic import Waiting
from muster.gang.nodes.capacity import Strategy
from muster.gang.nodes.devices import Matcher, match_nothing
from muster.gang.placement import Refusal
from muster.gang.quorum import Chosen
from muster.gang.shapes import count_shapes
from muster.runtime.controller import Result
from muster.runtime.events.recorder import Recorder
from muster.runtime.manager import Manager
from muster.runtime.objects import key_of, split_key
from muster.runtime.reconciler import Reconciler
from muster.runtime.transport import TransportError

# The most gangs to bind concurrently: enough to fill the server's group commits.
WORKERS = 16

# The most nodes to leave out, one after the other, because their devices turn out not to suit a gang.
MOST_REPLACEMENTS = 32

# The seconds that a gang may lack pods before that is published.
LACKING_SECONDS = 1.0

_DEFAULT = Scheduling()


class Scheduler(Reconciler):
    """The controller that schedules the pods whose `schedulerName` is one of `names`.

    sources: the sources of gangs; the first source that claims a pod decides its gang.
    runs_jobs: whether the Job controller of this cluster is Muster's, which counts no interruption as a failure.
    queues_recover: whether the queue of a gang that stays broken takes its quota back, and with it all its pods.
    matches: whether a device matches an expression of a class or a claim.
    decisions: the log to which decisions are added; by default one that is never read.
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
        runs_jobs: bool = True,
        queues_recover: bool = False,
        matches: Matcher = match_nothing,
        decisions: DecisionLog | None = None,
    ) -> None:
        super().__init__(manager, workers=WORKERS)
        self._records = PlacementRecorder(DecisionLog() if decisions is None else decisions, manager.clock)
        # By gang: since when it lacks pods, which, and the published reason.
        self._lacking: dict[str, tuple[float, str, str]] = {}
        self._shrunk: set[str] = set()  # gangs with fewer members than their carriers record
        self._roster = roster = Roster(sources, names, Strategy(settings.scoring_strategy), matches)
        self._binder = Binder(self._client, self._clock, roster)
        self._teller = Teller(self._client, recorder, self._clock)
        self._done = DoneJobs(manager, sources)
        self._said = Carriers(self._find_carrier, self._done.of)
        self._pending = PendingGangs(roster, partial(roster.running, carried=self._said.end), settings.overtakings)
        self._metrics = SchedulerMetrics(manager.registry, lambda: len(self._pending))
        self._sizes = Sizes(manager, recorder, names)
        self._agenda = Agenda(self._controller.queue, roster, self._pending, lambda: self._sizes.active)
        least = settings.minimum_run_time / SECOND
        self._preemptor = Preemptor(manager, recorder, roster, self._said.needs, least, runs_jobs=runs_jobs)
        self._halves = Halves(roster, self._pending, self._said, self._agenda, self._binder, self._teller, self._clock)
        self._recovery = Recovery(
            self._pending, self._agenda, self._preemptor, self._teller, self._records, self._clock,
            settings.recovery_timeout, queues_recover=queues_recover,
        )  # fmt: skip
        self._requests: CapacityRequests | None = None
        if settings.provisioning_class_name:
            self._requests = CapacityRequests(manager, recorder, settings.provisioning_class_name, self._is_waiting)
            manager.add(self._requests)
        self._shortage = Shortage(
            roster, self._pending, self._agenda, self._preemptor, self._halves, self._recovery, self._teller,
            self._sizes, self._requests, self._metrics, self._records, self._clock,
        )  # fmt: skip
        self._carriers = [
            (one, kind, manager.informer(kind, optional=one.optional)) for one in sources for kind in one.kinds
        ]
        self._follow(manager)

    def _follow(self, manager: Manager) -> None:
        """Subscribe to the events of the cluster."""
        around, roster = self._on_surroundings, self._roster
        manager.informer(POD_DISRUPTION_BUDGET, optional=True).on_change(self._on_budget)
        manager.informer(NODE).on_change(self._on_node)
        manager.informer(NAMESPACE).on_change(partial(around, roster.namespace_changed))
        manager.informer(PERSISTENT_VOLUME).on_change(partial(around, roster.volume_changed))
        manager.informer(PERSISTENT_VOLUME_CLAIM).on_change(partial(around, roster.claim_changed))
        # A server without these kinds has no devices.
        manager.informer(DEVICE_CLASS, optional=True).on_change(partial(around, roster.device_class_changed))
        manager.informer(RESOURCE_SLICE, optional=True).on_change(partial(around, roster.slice_changed))
        manager.informer(RESOURCE_CLAIM, optional=True).on_change(partial(around, roster.resource_claim_changed))
        manager.informer(POD).on_change(self._on_pod)
        self._done.on_change(self._on_members_done)
        self._sizes.on_change(self._agenda.sizes)
        for source, _, carriers in self._carriers:
            carriers.on_change(partial(self._on_carrier, source))

    async def run(self) -> None:
        """Finish what an earlier scheduler left half done, then schedule."""
        for key, gang in self._roster.gangs.items():
            if self._said.half_bound(key, gang):
                self._agenda.repair(key)
        if self._preemptor.resume():
            self._agenda.evict()
        await super().run()

    # Events of the cluster.

    def _retry_waiting(self) -> None:
        """Retry waiting gangs, after room came free or something else changed that could help."""
        self._pending.freed()
        self._agenda.sweep()

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if self._roster.node_changed(old, new) or new is None:  # the head may never fit without that node
            self._halves.node_changed((new if new is not None else old).metadata.name)  # type: ignore[union-attr]
            self._retry_waiting()

    def _on_surroundings(self, changed: Callable[[Any, Any], bool], old: Any | None, new: Any | None) -> None:
        if changed(old, new):
            self._retry_waiting()

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        change = self._roster.pod_changed(old, new)
        if new is None and old is not None:
            self._halves.forget_pod(old.metadata.uid)
            self._binder.forget(old.metadata.uid)
        if change.freed:
            self._retry_waiting()
        elif change.moved and self._pending.met_others():
            self._agenda.sweep()
        for key in {change.before, change.key}:
            gang = self._roster.gangs.get(key)
            if gang is None or not gang.unbound:
                self._forget(key)
        gang = self._roster.gangs.get(change.key)
        if gang is not None and gang.unbound and change.due:
            self._agenda.changed(change.key, gang)

    def _on_budget(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        allowed = new.status.disruptions_allowed if new is not None else None
        if old is not None and (allowed is None or allowed > old.status.disruptions_allowed):
            self._pending.try_again()
            self._agenda.sweep()

    def _on_carrier(self, source: GangSource[Any], old: Any | None, new: Any | None) -> None:
        key = source.key_of(new if new is not None else old)
        self._roster.carrier_changed(key)
        gang = self._roster.gangs.get(key)
        if gang is None:
            self._shrunk.discard(key)
            return
        if new is not None and shrunk_to(source, new) is not None:
            self._shrunk.add(key)
        if gang.unbound or key in self._shrunk:
            self._agenda.changed(key, gang)

    def _on_members_done(self, key: str) -> None:
        gang = self._roster.gangs.get(key)
        if gang is not None and gang.unbound:
            self._agenda.changed(key, gang)

    def _forget(self, key: str) -> None:
        """Forget everything that is known of a gang that no longer waits."""
        self._lacking.pop(key, None)
        self._halves.forget(key)
        self._recovery.forget(key)
        if self._requests is not None:
            self._requests.forget(key)
        self._stop_waiting(key)

    def _stop_waiting(self, key: str) -> None:
        """Remove a gang that starts, or waits for something other than room, from the waiting gangs.

        Spare its victims.
        """
        if self._pending.forget(key):
            self._agenda.sweep()
            self._agenda.sizes()
        if self._preemptor.spare(key):
            self._agenda.evict()

    def _is_waiting(self, key: str) -> bool:
        gang = self._roster.gangs.get(key)
        return gang is not None and bool(gang.unbound)

    # Reconciliation.

    async def _reconcile(self, key: str) -> Result:
        match key:
            case Look.SWEEP:
                self._sweep()
            case Look.EVICT:
                await self._preemptor.evict()
            case Look.LATER:
                self._pending.try_again()
                self._agenda.sweep()
            case Look.SHRINK | Look.GROW:
                return await self._reconcile_sizes(grow=key == Look.GROW)
            case _ if key in self._roster.gangs:
                return await self._reconcile_gang(key)
        return None

    def _sweep(self) -> None:
        """Queue the first gang of each class again."""
        for key in self._pending.sweep():
            self._agenda.gang(key)
        self._agenda.sizes()

    async def _reconcile_gang(self, key: str) -> Result:
        """Place what is due of a gang."""
        rest = self._halves.rest(key)
        if rest > 0:
            self._stop_waiting(key)
            return rest
        if self._preemptor.goes(key):  # its running pods are being evicted
            self._stop_waiting(key)
            return SWEEP_SECONDS
        gang = self._roster.gangs[key]
        await self._binder.settle(gang.unbound)
        if key in self._shrunk:
            await self._record_shrink(key, gang)
        carrier, due = self._said.due(key, self._roster)
        if not any(turn.repairs for turn in due.turns):
            self._recovery.forget(key)
        if not due.turns:
            self._stop_waiting(key)
            if due.lacking or carrier is None:
                await self._halves.look_at(key, carrier, due.lacking, may_change=True)
            return self._report_lacking(key, due.lacking, carrier)
        self._lacking.pop(key, None)
        refused: set[Hashable] = set()
        broken = False
        for turn in self._split_turns(due):
            # Pods that are placed one by one find no room if a pod of the same class found none. A broken gang
            # does nothing else before its repair: it waits as a broken gang.
            ask = self._make_ask(key, turn, carrier)
            if ask is None or ask.alike in refused or (broken and not turn.repairs):
                continue
            if not await self._place(ask):
                refused.add(ask.alike)
                broken |= turn.repairs
        return None

    async def _record_shrink(self, key: str, gang: Gang) -> None:
        """Record on the carrier of a gang how many members it has left."""
        carrier = self._said.of(key, gang)
        most = shrunk_to(gang.source, carrier.object) if gang.source is not None and carrier is not None else None
        if carrier is not None and most is not None:
            await self._binder.record_held(carrier, most)
        self._shrunk.discard(key)

    def _split_turns(self, due: Due) -> Iterator[Turn]:
        """Yield the turns of a gang. While nodes are reserved for others, each pod of a next wave has its own turn."""
        for turn in due.turns:
            yield from turn.one_by_one() if self._pending.keeps_nodes else (turn,)

    def _find_carrier(self, source: GangSource[Any], key: str) -> Carrier | None:
        for one, kind, carriers in self._carriers:
            if one is source and (carrier := carriers.get(split_key(key)[0])) and source.key_of(carrier) == key:
                return Carrier(kind, carrier)
        return None

    def _report_lacking(self, key: str, sentence: str, carrier: Carrier | None) -> Result:
        """Report that a gang lacks pods, or its carrier, once it has lacked the same for a while."""
        gang, now = self._roster.gangs.get(key), self._clock.monotonic()
        if not sentence or gang is None or not gang.unbound:
            self._lacking.pop(key, None)
            return None
        since, last_sentence, published = self._lacking.get(key, (now, sentence, ""))
        if last_sentence != sentence:
            since = now
        is_waiting = sentence != published and since + LACKING_SECONDS > now
        self._lacking[key] = since, sentence, published if is_waiting else sentence
        if is_waiting:
            return since + LACKING_SECONDS - now
        if sentence != published:
            self._teller.warn("Unschedulable", next(iter(gang.unbound.values())), carrier, sentence)
        return None

    async def _reconcile_sizes(self, *, grow: bool) -> Result:
        waiting = []
        for key in self._pending.in_order():
            carrier, due = self._said.due(key, self._roster)
            if due.turns:
                first = due.turns[0]
                alike = sum(turn.demand is first.demand for turn in due.turns)
                pods, count = (first.pods[:1], len(first.pods)) if first.demand is Demand.WAVE else (first.pods, alike)
                name = key_of(carrier.object if carrier is not None else pods[0])
                priority = self._roster.gangs[key].priority
                shapes = count_shapes(pods, self._roster.capacity.watched, self._roster.devices.ask)
                waiting.append(Waiting(key, name, priority, shapes, count))
        roster = self._roster
        around = roster.capacity, roster.gangs, roster.leaving
        again = await self._sizes.look(*around, waiting, grow=grow, asking=roster.devices.ask)
        return SHRINK_SECONDS if again else None

    def _make_ask(self, key: str, turn: Turn, carrier: Carrier | None) -> Ask | None:
        """Return the request of a turn; None if its pods are no longer to be placed, which the next event handles."""
        capacity, gang = self._roster.capacity, self._roster.gangs.get(key)
        if gang is None or not all(pod.metadata.uid in gang.unbound for pod in turn.pods):
            return None
        if sum(self._roster.unassume(pod.metadata.uid) for pod in turn.pods):  # left by an attempt that was cut off
            self._pending.freed()
        closed = self._halves.closed(turn.pods)
        return Ask.of(key, gang, turn, carrier, capacity, closed, self._roster.devices.ask)

    async def _place(self, ask: Ask) -> bool:
        """Bind the pods of a turn together if they may start; return whether they did.

        No other task runs between the decision and the assignment.
        """
        now, began = self._clock.now().timestamp(), self._clock.monotonic()
        outcome = decide_start(self._pending, ask, self._roster.capacity, now)
        self._metrics.decided(self._clock.monotonic() - began)
        if isinstance(outcome, Refusal):
            await self._shortage.no_room(ask, outcome, now)
            return False
        if isinstance(outcome, Kept):
            await self._shortage.kept_for(outcome.head, ask, now)
            return False
        chosen = self._pick_devices(ask, outcome)
        if chosen is None:
            await self._shortage.devices_differ(ask)
            return False
        return await self._start(ask, chosen)

    def _pick_devices(self, ask: Ask, chosen: Chosen) -> Chosen | None:
        """Pick the devices that the pods claim. If a node has too few, place the gang without that node."""
        if not any(pod.spec.resource_claims for pod in ask.turn.pods):
            return chosen
        nominated = self._pending.kept_for_others(ask.key, ask.standing)
        for _ in range(MOST_REPLACEMENTS):
            lacking = self._roster.devices.pick(ask.bindings(chosen))
            if not lacking:
                return chosen
            ask = ask.without_node(lacking)
            outcome = ask.place(self._roster.capacity, nominated)
            if isinstance(outcome, Refusal):
                return None
            chosen = outcome
        return None

    async def _start(self, ask: Ask, chosen: Chosen) -> bool:
        """Bind pods to their chosen nodes, whose room they use from now on."""
        bindings = ask.bindings(chosen)
        self._stop_waiting(ask.key)
        if ask.turn.repairs:
            self._recovery.forget(ask.key)
        if self._requests is not None:
            self._requests.forget(ask.key)
        for pod, node in bindings:
            self._roster.assume(pod, node)
        if self._pending.met_others():
            self._agenda.sweep()
        pods = [pod for pod, _ in bindings]
        intent = ask.intent(pods, self._roster.others(ask.key))
        under_way = intent if intent is not None and intent.leaves else None
        try:
            if ask.carrier is not None:
                # `is_first` is checked last, because it reads all members, which is costly for pods placed one by one.
                counts = (len(bindings) > 1 or is_counted(ask.carrier.meta)) and ask.is_first
                await self._binder.record_start(ask.carrier, ask.held(pods) if counts else None, under_way)
            refusals = await self._binder.bind(bindings, intent)
            if ask.carrier is not None and ask.turn.grows:
                await self._binder.record_held(ask.carrier, ask.held(pods))
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
        self._records.placed(ask, bindings)
        if ask.carrier is not None and (under_way or (ask.turn.repairs and read_intent(ask.carrier.meta))):
            await self._binder.forget_intent(ask.carrier)
        if len(bindings) < len(ask.turn.pods):  # pods above the minimum wait alone
            self._agenda.gang(ask.key)
        return True

    def _unassume(self, key: str, bindings: Sequence[tuple[Pod, str]]) -> None:
        """Release the room of pods that were certainly not bound."""
        gang = self._roster.gangs.get(key)
        for pod, _ in bindings:
            uid = pod.metadata.uid
            if gang is not None and uid in gang.unbound and not self._binder.may_be_bound(uid):
                self._roster.unassume(uid)
        self._retry_waiting()
