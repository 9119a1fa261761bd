"""Bind the pods of a gang to nodes together, or none of them.

`GangSource`s decide which pods form a gang. The pods of a Job that should run now are a gang, unless the Job has
`muster.dev/gang: "false"`. So are pods that name a group. Any other pod is a gang of one. `muster.gang` decides
placement. This module observes the cluster and writes decisions. Gangs that could not be placed wait, without further
work, until a change could help them. If there are elastic Jobs (`sizes`), waiting gangs and free room are also
considered together, to decide which Jobs shrink or grow.

A gang of several pods is bound by several writes. Each write records the intent on its pod
(`muster.dev/binding-since`). A scheduler that starts finds half-bound gangs by the intent, and binds their other pods
before it places any other pod. If the unbound pods no longer fit, or the gang's carrier is deleted, the bound pods are
deleted (`halves`). So in the end a gang is bound whole or not at all.

This module is the loop: it handles events, gets the next gang from the `agenda`, and places it. Its state is the
`SchedulerState`. Its decisions are functions of `deciding`, `shortage`, `halves`, `recovery` and `lacking`. `Executor`
executes the decisions about gangs that wait, and this module executes the start of a gang.
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
from muster.controllers.elastic.decisions import ResizeRecorder
from muster.controllers.elastic.placement import Sizes
from muster.controllers.gangs import SCHEDULERS, DueTurns, Gang, GangSource, Turn, is_counted, shrunk_to
from muster.controllers.intents import read_intent
from muster.controllers.scheduler.agenda import SHRINK_SECONDS, Look, SchedulerAgenda
from muster.controllers.scheduler.ask import GangTurn
from muster.controllers.scheduler.binding import Binder
from muster.controllers.scheduler.capacityrequest import CapacityRequests
from muster.controllers.scheduler.carrier import Carrier, Carriers
from muster.controllers.scheduler.deciding import KeptRoom, decide_start
from muster.controllers.scheduler.decisions import PlacementRecorder
from muster.controllers.scheduler.donejobs import DoneJobs
from muster.controllers.scheduler.evicting import Evictor
from muster.controllers.scheduler.executing import Executor
from muster.controllers.scheduler.lacking import decide_report
from muster.controllers.scheduler.metrics import SchedulerMetrics
from muster.controllers.scheduler.pending import PendingGangs
from muster.controllers.scheduler.roster import Roster
from muster.controllers.scheduler.state import Rules, SchedulerState
from muster.controllers.scheduler.telling import Teller
from muster.controllers.scheduler.victims import Victims
from muster.gang.demands import Demand
from muster.gang.elastic import WaitingGang
from muster.gang.nodes.capacity import Strategy
from muster.gang.nodes.devices import Matcher, match_nothing
from muster.gang.placement import Refusal
from muster.gang.quorum import Chosen
from muster.gang.shapes import count_shapes
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.informer import Informer
from muster.runtime.objects import key_of, split_key
from muster.runtime.transport import TransportError

# The maximum number of gangs to bind concurrently: enough to fill the server's group commits.
WORKERS = 16

# The maximum number of nodes to exclude, one after the other, because their devices do not suit a gang.
MOST_REPLACEMENTS = 32


_DEFAULT = Scheduling()


class Scheduler(Reconciler):
    """The controller that schedules the pods whose `schedulerName` is one of `names`.

    sources: the sources of gangs; the first source that returns a key for a pod decides its gang.
    runs_jobs: whether the Job controller of this cluster is Muster's, which counts no interruption as a failure.
    queues_recover: whether the queue of a gang that stays broken evicts its workload, which ends all its pods.
    matches: returns whether a device matches an expression of a class or a claim.
    decisions: the decision log; by default a log that is never read.
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
        roster = Roster(sources, names, Strategy(settings.scoring_strategy), matches)
        self._done = DoneJobs(manager, sources)
        carriers = Carriers(self._find_carrier, self._done.of)
        pending = PendingGangs(roster, partial(roster.make_ledger, carried=carriers.end), settings.overtakings)
        decisions = DecisionLog() if decisions is None else decisions
        self._sizes = Sizes(manager, recorder, names, ResizeRecorder(decisions, manager.clock).record)
        self._state = state = SchedulerState(
            roster, carriers, pending,
            Victims(roster, carriers.needs, settings.minimum_run_time / SECOND),
            manager.informer(POD_DISRUPTION_BUDGET, optional=True).all,
            SchedulerAgenda(self._controller.queue, roster, pending, lambda: self._sizes.has_elastic_jobs),
            Rules(settings.recovery_timeout, queues_recover),
        )  # fmt: skip
        self._binder = Binder(self._client, self._clock, roster)
        self._teller = Teller(self._client, recorder, self._clock)
        self._records = PlacementRecorder(decisions, manager.clock)
        self._metrics = SchedulerMetrics(manager.registry, lambda: len(pending))
        self._evictor = Evictor(self._client, recorder, state.displaced, runs_jobs=runs_jobs)
        self._requests: CapacityRequests | None = None
        if settings.provisioning_class_name:
            self._requests = CapacityRequests(manager, recorder, settings.provisioning_class_name, state.is_waiting)
            manager.add(self._requests)
        self._executor = Executor(
            state, self._binder, self._evictor, self._teller, self._records, self._metrics, self._sizes,
            self._requests, self._clock,
        )  # fmt: skip
        self._carriers = [
            (one, kind, manager.informer(kind, optional=one.optional)) for one in sources for kind in one.kinds
        ]
        self._follow(manager)

    def _follow(self, manager: Manager) -> None:
        """Register handlers for the events of the cluster.

        Handlers for nodes and volumes are registered at the first pod.
        """
        around, roster = self._on_surroundings, self._state.roster
        manager.informer(POD_DISRUPTION_BUDGET, optional=True).on_change(self._on_budget)
        self._unfollowed: list[tuple[Informer[Any], Callable[[Any, Any], None]]] = [
            (manager.informer(NODE), self._on_node),
            (manager.informer(NAMESPACE), partial(around, roster.namespace_changed)),
            (manager.informer(PERSISTENT_VOLUME), partial(around, roster.volume_changed)),
            (manager.informer(PERSISTENT_VOLUME_CLAIM), partial(around, roster.claim_changed)),
            # A server without these kinds has no devices.
            (manager.informer(DEVICE_CLASS, optional=True), partial(around, roster.device_class_changed)),
            (manager.informer(RESOURCE_SLICE, optional=True), partial(around, roster.slice_changed)),
            (manager.informer(RESOURCE_CLAIM, optional=True), partial(around, roster.resource_claim_changed)),
        ]
        manager.informer(POD).on_change(self._on_pod)
        self._done.on_change(self._on_members_done)
        self._sizes.on_change(self._state.agenda.queue_size_decisions)
        for source, _, carriers in self._carriers:
            carriers.on_change(partial(self._on_carrier, source))

    def _follow_surroundings(self) -> None:
        """Watch the nodes, volumes, claims and namespaces, when the first pod is observed.

        A cluster without pods creates no arrays, and so does not load numpy, which takes 12 MB.
        """
        unfollowed, self._unfollowed = self._unfollowed, []
        for informer, handler in unfollowed:
            informer.on_change(handler)

    async def run(self) -> None:
        """Queue the half-bound gangs and the marked victims of an earlier scheduler, then schedule until `stop`."""
        self._state.resume()
        await super().run()

    # Events of the cluster.

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        state = self._state
        if state.roster.node_changed(old, new) or new is None:  # the head may never fit without that node
            state.half_bound.open_node((new if new is not None else old).metadata.name)  # type: ignore[union-attr]
            state.retry_waiting()

    def _on_surroundings(self, changed: Callable[[Any, Any], bool], old: Any | None, new: Any | None) -> None:
        if changed(old, new):
            self._state.retry_waiting()

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        self._follow_surroundings()
        state = self._state
        change = state.roster.pod_changed(old, new)
        if new is None and old is not None:
            state.half_bound.closed.pop(old.metadata.uid, None)
            self._binder.forget(old.metadata.uid)
        if change.freed:
            state.retry_waiting()
        elif change.moved and state.pending.drop_refusals_by_other_pods():
            state.agenda.sweep()
        for key in {change.before, change.key}:
            if not state.is_waiting(key):
                self._forget(key)
        if change.due and state.is_waiting(change.key):
            state.agenda.queue_changed_gang(change.key, state.roster.gangs[change.key])

    def _on_budget(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        allowed = new.status.disruptions_allowed if new is not None else None
        if old is not None and (allowed is None or allowed > old.status.disruptions_allowed):
            self._state.pending.drop_failed_searches()
            self._state.agenda.sweep()

    def _on_carrier(self, source: GangSource[Any], old: Any | None, new: Any | None) -> None:
        state, key = self._state, source.key_of(new if new is not None else old)
        state.roster.carrier_changed(key)
        gang = state.roster.gangs.get(key)
        if gang is None:
            state.shrunk.discard(key)
            return
        if new is not None and shrunk_to(source, new) is not None:
            state.shrunk.add(key)
        if gang.unbound or key in state.shrunk:
            state.agenda.queue_changed_gang(key, gang)

    def _on_members_done(self, key: str) -> None:
        if self._state.is_waiting(key):
            self._state.agenda.queue_changed_gang(key, self._state.roster.gangs[key])

    def _forget(self, key: str) -> None:
        """Forget a gang that no longer waits."""
        if self._requests is not None:
            self._requests.forget(key)
        self._state.forget(key)

    # Reconciliation.

    async def _reconcile(self, key: str) -> Result:
        self._follow_surroundings()
        state = self._state
        match key:
            case Look.SWEEP:
                state.sweep()
            case Look.EVICT:
                await self._evictor.evict()
            case Look.LATER:
                state.pending.drop_failed_searches()
                state.agenda.sweep()
            case Look.SHRINK | Look.GROW:
                return await self._reconcile_sizes(grow=key == Look.GROW)
            case _ if key in state.roster.gangs:
                return await self._reconcile_gang(key)
        return None

    async def _reconcile_gang(self, key: str) -> Result:
        """Place the pods of a gang that are due now; return the seconds until its next reconcile, or None."""
        state = self._state
        if (pause := state.find_pause(key, self._clock.monotonic())) > 0:
            state.stop_waiting(key)
            return pause
        gang = state.roster.gangs[key]
        await self._binder.settle(gang.unbound)
        if key in state.shrunk:
            await self._record_shrink(key, gang)
        carrier, due = state.carriers.due(key, state.roster)
        if not any(turn.repairs for turn in due.turns):
            state.broken.pop(key, None)
        if not due.turns:
            state.stop_waiting(key)
            if due.lacking or carrier is None:
                await self._executor.take_back_half(key, carrier, due.lacking, may_change=True)
            return self._report_lacking(key, due.lacking, carrier)
        state.lacking.pop(key, None)
        refused: set[Hashable] = set()
        broken = False
        for turn in self._split_turns(due):
            # If a pod found no room, other pods of its class that are placed one by one find none, either. A broken
            # gang is repaired before any other of its pods is placed, and waits as a broken gang.
            ask = self._make_ask(key, turn, carrier)
            if ask is None or ask.alike in refused or (broken and not turn.repairs):
                continue
            if not await self._place(ask):
                refused.add(ask.alike)
                broken |= turn.repairs
        return None

    async def _record_shrink(self, key: str, gang: Gang) -> None:
        """Annotate the carrier of a gang that shrank with the number of its remaining members."""
        carrier = self._state.carriers.of(key, gang)
        most = shrunk_to(gang.source, carrier.object) if gang.source is not None and carrier is not None else None
        if carrier is not None and most is not None:
            await self._binder.record_held(carrier, most)
        self._state.shrunk.discard(key)

    def _split_turns(self, due: DueTurns) -> Iterator[Turn]:
        """Yield a gang's turns: sets of its due pods, each of which is placed together.

        While nodes are reserved for some gang, each pod for a Job's next completions has a turn of its own.
        """
        for turn in due.turns:
            yield from turn.one_by_one() if self._state.pending.keeps_nodes else (turn,)

    def _find_carrier(self, source: GangSource[Any], key: str) -> Carrier | None:
        for one, kind, carriers in self._carriers:
            if one is source and (carrier := carriers.get(split_key(key)[0])) and source.key_of(carrier) == key:
                return Carrier(kind, carrier)
        return None

    def _report_lacking(self, key: str, sentence: str, carrier: Carrier | None) -> Result:
        """Publish that a gang lacks pods, or its carrier, after the same lack has lasted a while.

        Return the seconds until then; None if there is nothing to publish later.
        """
        decision = decide_report(self._state, key, sentence, self._clock.monotonic())
        if not isinstance(decision, Pod):
            return decision
        self._teller.warn("Unschedulable", decision, carrier, sentence)
        return None

    async def _reconcile_sizes(self, *, grow: bool) -> Result:
        waiting = []
        for key in self._state.pending.list_in_order():
            carrier, due = self._state.carriers.due(key, self._state.roster)
            if due.turns:
                first = due.turns[0]
                alike = sum(turn.demand is first.demand for turn in due.turns)
                pods, count = (first.pods[:1], len(first.pods)) if first.demand is Demand.WAVE else (first.pods, alike)
                name = key_of(carrier.object if carrier is not None else pods[0])
                priority = self._state.roster.gangs[key].priority
                shapes = count_shapes(pods, self._state.roster.capacity.watched, self._state.roster.devices.ask)
                waiting.append(WaitingGang(key, name, priority, shapes, count))
        roster = self._state.roster
        around = roster.capacity, roster.gangs, roster.leaving
        again = await self._sizes.resize(*around, waiting, grow=grow, asking=roster.devices.ask)
        return SHRINK_SECONDS if again else None

    def _make_ask(self, key: str, turn: Turn, carrier: Carrier | None) -> GangTurn | None:
        """Return the request for a turn of a gang; None if some of its pods were deleted or bound in the meantime."""
        capacity, gang = self._state.roster.capacity, self._state.roster.gangs.get(key)
        if gang is None or not all(pod.metadata.uid in gang.unbound for pod in turn.pods):
            return None
        if sum(self._state.roster.unassume(pod.metadata.uid) for pod in turn.pods):  # left by an interrupted attempt
            self._state.pending.drop_refusals()
        closed = self._state.half_bound.find_closed(turn.pods, self._clock.monotonic())
        return GangTurn.of(key, gang, turn, carrier, capacity, closed, self._state.roster.devices.ask)

    async def _place(self, ask: GangTurn) -> bool:
        """Decide about the pods of a turn, and bind them together if they may start; return whether they were bound.

        No `await` separates the decision from the assignment of room, so that no other task changes the state in
        between.
        """
        now, began = self._clock.now().timestamp(), self._clock.monotonic()
        outcome = decide_start(self._state.pending, ask, self._state.roster.capacity, now)
        self._metrics.record_decision(self._clock.monotonic() - began)
        if isinstance(outcome, Refusal):
            await self._executor.wait_for_room(ask, outcome, now)
            return False
        if isinstance(outcome, KeptRoom):
            await self._executor.wait_for_head(ask, outcome.head, now)
            self._queue_gang(self._state.pending.next_before_head(ask.alike))
            return False
        chosen = self._pick_devices(ask, outcome)
        if chosen is None:
            await self._executor.wait_for_devices(ask)
            return False
        return await self._start(ask, chosen)

    def _pick_devices(self, ask: GangTurn, chosen: Chosen) -> Chosen | None:
        """Pick devices on the chosen nodes for the pods' claims. If a node lacks some, choose nodes without that node.

        Return the final choice; None if the gang fits on no other nodes.
        """
        if not any(pod.spec.resource_claims for pod in ask.turn.pods):
            return chosen
        nominated = self._state.pending.sum_nominated_room(ask.key, ask.criteria)
        for _ in range(MOST_REPLACEMENTS):
            lacking = self._state.roster.devices.pick(ask.bindings(chosen))
            if not lacking:
                return chosen
            ask = ask.without_node(lacking)
            outcome = ask.place(self._state.roster.capacity, nominated)
            if isinstance(outcome, Refusal):
                return None
            chosen = outcome
        return None

    async def _start(self, ask: GangTurn, chosen: Chosen) -> bool:
        """Count the chosen nodes' room as used, and write the bindings; return whether the pods were bound."""
        bindings = ask.bindings(chosen)
        self._state.stop_waiting(ask.key)
        if ask.turn.repairs:
            self._state.broken.pop(ask.key, None)
        if self._requests is not None:
            self._requests.forget(ask.key)
        for pod, node in bindings:
            self._state.roster.assume(pod, node)
        overtaken = self._state.pending.may_overtake_head(ask.criteria.tenant)
        if self._state.pending.drop_refusals_by_other_pods() or overtaken:
            self._state.agenda.sweep()
        pods = [pod for pod, _ in bindings]
        intent = ask.intent(pods, self._state.roster.others(ask.key))
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
        self._state.agenda.queue_size_decisions()
        self._queue_gang(self._state.pending.next_alike(ask.alike))
        if refusals:
            self._metrics.count_attempts("error", len(refusals))
            await self._executor.replan(ask, refusals)
            return False
        self._metrics.count_attempts("scheduled", len(bindings))
        self._teller.report_bindings(bindings, ask.carrier)
        self._records.record_placement(ask, bindings)
        if ask.carrier is not None and (under_way or (ask.turn.repairs and read_intent(ask.carrier.meta))):
            await self._binder.forget_intent(ask.carrier)
        if len(bindings) < len(ask.turn.pods):  # the pods above the minimum wait on their own
            self._state.agenda.gang(ask.key)
        return True

    def _queue_gang(self, key: str | None) -> None:
        if key is not None:
            self._state.agenda.gang(key)

    def _unassume(self, key: str, bindings: Sequence[tuple[Pod, str]]) -> None:
        """Free the room of pods after a failure, unless their binding may have succeeded; retry the waiting gangs."""
        gang = self._state.roster.gangs.get(key)
        for pod, _ in bindings:
            uid = pod.metadata.uid
            if gang is not None and uid in gang.unbound and not self._binder.may_be_bound(uid):
                self._state.roster.unassume(uid)
        self._state.retry_waiting()
