"""Place gangs on the nodes of a simulation, with the scheduler's own decisions: order, reservation and backfill.

All pods of one shape that a gang has on a node are recorded as one entry, called guest.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import count, repeat

from msgspec import Struct

from muster.api.core import Node, Pod
from muster.controllers.decisionlog import DecisionLog
from muster.controllers.scheduler.deciding import KeptRoom, decide_start
from muster.controllers.scheduler.decisions import (
    NO_ROOM,
    NODES_KEPT,
    NODES_NOMINATED,
    describe_placement,
    describe_wait,
)
from muster.controllers.scheduler.pending import PendingGangs, Waiter
from muster.gang import arrays as np
from muster.gang.demands import Demand
from muster.gang.explain import explain
from muster.gang.fit.packing import Effort
from muster.gang.nodes.capacity import Capacity
from muster.gang.order.ledger import GangLedger, RunningGang
from muster.gang.order.preemption import Candidate, GangPreemption, preempt
from muster.gang.order.reservation import MOST_OVERTAKINGS
from muster.gang.order.shares import Shares
from muster.gang.placement import Placement, Refusal, place
from muster.gang.quorum import Chosen
from muster.gang.shapes import Amounts, Guest, Shape, guest_of
from muster.gang.topology import TopologyConstraint, place_near
from muster.queueing.topology.ledger import CapacityLedger as PlacesLedger
from muster.simulation.engine.nodes.displacement import find_end_of_protection
from muster.simulation.engine.nodes.gangask import GangAsk, tell_moment
from muster.simulation.engine.nodes.passing import Passing, Uniform


class _Held(Struct, frozen=True, eq=False):
    """A gang that has nodes.

    ask: the request with which it started.
    started: the start time, in seconds since the epoch.
    guests: the shape and the number of pods of each of its entries on nodes, by the entry's id.
    ranks: for an elastic gang, which has one entry per pod, the entry's id by the pod's index.
    """

    ask: GangAsk
    started: float
    guests: dict[str, tuple[Shape, int]]
    ranks: dict[int, str]


class Machines:
    """The simulated nodes, the gangs on them, and the gangs that wait for nodes. Times are seconds since the epoch."""

    def __init__(
        self,
        nodes: Iterable[Node],
        overtakings: int = MOST_OVERTAKINGS,
        places: PlacesLedger | None = None,
        helped: Callable[[], None] = lambda: None,
        shrinks_first: Callable[[], bool] = lambda: False,
    ) -> None:
        """Start with empty nodes.

        overtakings: the number of gangs without a known end that may pass a waiting gang.
        places: the record in which admission looks for free topology domains; gangs outside of domains are added to it.
        helped: called when such a gang leaves its nodes, and when nodes change, if `places` is in use.
        shrinks_first: returns whether elastic gangs may shrink for a gang before it preempts others.
        """
        self.capacity = Capacity()
        self._places = places if places is not None and places.in_use else None
        self._helped = helped
        self._shrinks_first = shrinks_first
        self._patient: list[str] = []  # the gangs that preempt others if no elastic gang shrinks for them
        self.shares = Shares()
        self._running = GangLedger()
        self._overtakings = overtakings
        self._pending = self._make_pending()
        self._passing = Passing(self._pending, self.capacity)
        self._asks: dict[str, GangAsk] = {}  # the requests of the waiting gangs
        self._held: dict[str, _Held] = {}  # the gangs on nodes
        self._serials = count()  # for the ids of guests
        self._freed = False  # whether room became free since the last sweep
        self._candidates: dict[str, Candidate] = {}  # the running gangs that others may preempt
        self._resistances: Counter[int] = Counter()
        self._weakest: int | None = None  # the lowest resistance among them
        self._displaced: list[str] = []
        # The time at which the next gang in the way of a waiting gang loses its protection; None if there is none.
        self.protected_until: float | None = None
        self._record: DecisionLog | None = None
        self._empty = Capacity()
        for node in nodes:
            self.capacity.set_node(node)
            self._empty.set_node(node)

    def record(self, decisions: DecisionLog) -> None:
        """Add every decision from now on to a log."""
        self._record = decisions

    def _make_pending(self) -> PendingGangs:
        return PendingGangs(self, lambda _: self._running, self._overtakings)

    def set_node(self, node: Node, usual: Node) -> None:
        """Add or update a node. The caller has removed pods that may no longer run there.

        usual: the node in its state without any failure or cordon.
        """
        self.capacity.set_node(node)
        self._empty.set_node(usual)
        if self._places is not None:
            self._places.set_node(node)
        self._note_nodes()

    def remove_node(self, name: str) -> None:
        """Remove a node. The caller has already removed all pods from it."""
        self.capacity.remove_node(name)
        self._empty.remove_node(name)
        if self._places is not None:
            self._places.remove_node(name)
        self._note_nodes()

    def _note_nodes(self) -> None:
        self._pending.drop_refusals()
        self._freed = True
        if self._places is not None:
            self._helped()

    def list_gangs_on(self, node: str) -> list[str]:
        """Return the keys of the gangs with pods on a node, in order."""
        keys = {guest.rsplit("/", 2)[0] for guest in self.capacity.guests.on(node)}
        return sorted(key for key in keys if key in self._held)  # pods without a gang are there, too

    def break_gang(self, key: str, node: str) -> Counter[Shape]:
        """Free the room of a gang on one node; return how many pods of each shape it loses.

        The gang keeps its other nodes, and its request for nodes is dropped.
        """
        held, lost = self._held[key], Counter[Shape]()
        for guest in [guest for guest in held.guests if guest.rpartition("/")[2] == node]:
            shape, number = self._drop_guest(held, guest)
            lost[shape] += number
        self._asks.pop(key, None)
        self._pending.forget(key)
        if held.guests:
            self._count_use(held)
            self._note_nodes()
        else:
            self.free(key)
        return lost

    def _drop_guest(self, held: _Held, guest: str) -> tuple[Shape, int]:
        """Free the room of one entry of a gang; return the shape and the number of its pods."""
        self.capacity.release(guest)
        self._leave_places((guest,))
        for index in [index for index, its in held.ranks.items() if its == guest]:
            del held.ranks[index]
        return held.guests.pop(guest)

    def list_asks(self) -> list[GangAsk]:
        """Return the requests of the waiting gangs, in order."""
        return [self._asks[key] for key in self._pending.list_in_order()]

    def waits(self, key: str) -> bool:
        """Return whether a gang waits for nodes."""
        return key in self._asks

    def find_ranks(self, key: str) -> Mapping[int, str]:
        """Return the id of each pod's entry on a node, by the pod's index; empty if the elastic gang has no nodes."""
        held = self._held.get(key)
        return {} if held is None else held.ranks

    def shrink(self, key: str, size: int) -> None:
        """Free the room of an elastic gang's pods with an index of at least `size`.

        The gang's request for nodes is dropped.
        """
        self._asks.pop(key, None)
        self._pending.forget(key)
        if (held := self._held.get(key)) is not None:
            for index in [index for index in held.ranks if index >= size]:
                self._drop_guest(held, held.ranks[index])
            if held.guests:
                self._count_use(held)
            else:
                self._vacate(key)
        self._note_nodes()

    def grow(self, ask: GangAsk, now: float) -> bool:
        """Give a running gang nodes for more pods if it may have them now; return whether it got them.

        Otherwise its request is dropped.
        """
        grown = self.ask(ask, now)
        if not grown:
            self._asks.pop(ask.key, None)
            self._pending.forget(ask.key)
        return grown

    def lose_patience(self) -> bool:
        """Let gangs preempt others if no elastic gang has shrunk for them; return whether there are such gangs."""
        patient, self._patient = self._patient, []
        if not any(key in self._asks for key in patient):
            return False
        self._freed = True
        return True

    def runs(self, key: str) -> bool:
        """Return whether a gang has pods on nodes."""
        return key in self._held

    def forget_decisions(self) -> None:
        """Forget what a scheduler forgets at a restart: refusals, reservations, and which gangs passed."""
        self._pending = self._make_pending()
        self._passing = Passing(self._pending, self.capacity)
        for ask in self._asks.values():
            self._pending.wait(ask.key, Waiter(ask.equivalence, ask.criteria))
        self._freed = True

    def ask(self, ask: GangAsk, now: float) -> bool:
        """Start a gang now if it may start; return whether it does.

        Otherwise it waits, and a later `sweep` starts it.
        """
        self._asks[ask.key] = ask
        return self._try(ask, now)

    def take_up(self, ask: GangAsk, placement: Placement, started: float) -> None:
        """Record a gang on nodes on which it runs since `started`, without checking that it fits.

        Unknown nodes are ignored.

        started: in seconds since the epoch.
        """
        known = {
            shape: tuple(one for one in nodes if self.capacity.index_of(one[0]) is not None)
            for shape, nodes in placement.nodes.items()
        }
        self._asks[ask.key] = ask
        self._start(ask, Placement(known), started)

    def settle_pod(self, pod: Pod) -> None:
        """Record a pod without a gang on its node, permanently. Does nothing if the node is unknown."""
        if self.capacity.index_of(pod.spec.node_name) is not None:
            self.capacity.assign(f"pod/{pod.metadata.uid}", pod.spec.node_name, guest_of(pod))

    def free(self, key: str) -> None:
        """Remove a running or waiting gang, and free its room; `sweep` then starts others."""
        self._asks.pop(key, None)
        self._pending.forget(key)
        self._vacate(key)

    def retry(self) -> None:
        """Let gangs search for victims again, because the protection of a running gang has ended."""
        self.protected_until = None
        self._pending.drop_failed_searches()
        self._freed = True

    def take_displaced(self) -> list[str]:
        """Return the keys of the gangs that were preempted since the last call."""
        displaced, self._displaced = self._displaced, []
        return displaced

    def count_pods(self, key: str) -> Mapping[str, int]:
        """Return how many pods a running gang has on each node; empty if the gang does not run."""
        pods: Counter[str] = Counter()
        held = self._held.get(key)
        for guest, (_, number) in held.guests.items() if held is not None else ():
            pods[guest.rpartition("/")[2]] += number
        return pods

    def count_guests(self, key: str) -> Mapping[tuple[Shape, str], int]:
        """Return how many pods of each shape a gang has on each node; empty if the gang does not run."""
        pods: Counter[tuple[Shape, str]] = Counter()
        held = self._held.get(key)
        for guest, (shape, number) in held.guests.items() if held is not None else ():
            pods[shape, guest.rpartition("/")[2]] += number
        return pods

    def explain_lack(self, shapes: Mapping[Shape, int], near: TopologyConstraint | None) -> str:
        """Return why these pods would not fit on empty, intact nodes; "" if they would.

        near: how close together the pods must be; None if they may be anywhere.
        """
        outcome = place(self._empty, shapes) if near is None else place_near(self._empty, shapes, near)
        return "" if isinstance(outcome, Placement) else explain(self._empty, outcome, sum(shapes.values()))

    def sweep(self, now: float) -> Iterator[str]:
        """Start waiting gangs if room became free or shares changed; yield the key of each gang that starts."""
        while self._freed:
            self._freed = False
            yield from self._sweep_once(now)

    def _sweep_once(self, now: float) -> Iterator[str]:
        keys = self._pending.sweep()
        sorted_until, behind = len(keys), False  # whether the remaining sorted keys come after the head
        in_order = not self._pending.is_head_overtaken()
        for number, key in enumerate(keys):  # grows during the loop
            if (ask := self._asks.get(key)) is None:
                continue
            behind = behind and in_order and number < sorted_until
            behind = behind or self._passing.is_behind_head(key, ask.criteria, now)
            if behind and self._is_helpless(ask, now):
                starts = False
            else:
                behind = False
                starts = self._try(ask, now)
                in_order = not self._pending.is_head_overtaken()
            if starts:
                yield key
            helped = starts or self._pending.is_nominated(key)  # the next gang of its class may find room, or victims
            follow = self._pending.next_alike if helped else self._pending.next_before_head
            if (alike := follow(ask.equivalence)) is not None:
                keys.append(alike)

    def _is_helpless(self, ask: GangAsk, now: float) -> bool:
        """Return whether another attempt to start a waiting gang would certainly fail.

        The gang comes after the head, which is the first waiting gang. The attempt fails if the gang may preempt no
        other gang, and either lacks room, would delay the head, or was refused recently.
        """
        if ask.precedence.strength is not None and self._may_displace(ask):
            return False
        if self._record is None and ask.uniform is not None:  # a record has each refusal, so that it needs each try
            shape, wanted = ask.uniform
            room = self.capacity.find_known_room(shape)
            if room is not None and room < wanted:
                return True
            if self._passing.would_delay_head(self._find_pods_of_head(), shape, wanted, ask.end(now)):
                return True
        return self._pending.get_refusal(ask.alike) is not None

    def _find_pods_of_head(self) -> Uniform | None:
        head = self._pending.head
        return self._asks[head.key].uniform if head is not None else None

    def _try(self, ask: GangAsk, now: float) -> bool:
        """Start a gang if it may start; return whether it does. Otherwise it waits, and preempts others if it may.

        If it is the first waiting gang, room is reserved for it.
        """
        outcome = decide_start(self._pending, ask, self.capacity, now)
        if isinstance(outcome, Chosen):
            if self._record is not None:
                self._record_placement(self._record, ask, outcome.placement, now)
            self._start(ask, outcome.placement, now)
            return True
        if self._record is not None:
            self._record_wait(self._record, ask, outcome, now)
        waiter = Waiter(ask.equivalence, ask.criteria)
        if isinstance(outcome, Refusal):
            if self._shrinks_first() and self._pending.get(ask.key) is None:
                self._patient.append(ask.key)
            else:
                self._displace_for(ask, now)
            self._pending.reserve_for(ask.key, waiter, partial(ask.find_refusal, self.capacity), now)
        else:
            assert isinstance(outcome, KeptRoom), "there is no other answer"
        self._pending.wait(ask.key, waiter)
        return False

    def _may_displace(self, ask: GangAsk) -> bool:
        """Return whether searching for victims could help: a weaker gang runs, and no such search has failed before."""
        strong = ask.precedence.strength
        if strong is None or self._weakest is None or self._weakest >= strong:
            return False
        return self._pending.get_failed_search(ask.alike, ask.criteria) is None

    def _displace_for(self, ask: GangAsk, now: float) -> None:
        """Preempt weaker gangs if that lets a gang start; the next sweep starts it. A failed search is remembered."""
        strong = ask.precedence.strength
        if strong is None or not self._may_displace(ask):
            return
        nominated, effort = self._pending.sum_nominated_room(ask.key, ask.criteria), Effort()
        extra_use = np.zeros_like(self.capacity.free()) if nominated is None else nominated
        plan = preempt(
            self.capacity,
            ask.shapes,
            lambda used, _: ask.find_placement(self.capacity, used, effort),
            strong,
            self._candidates.values(),
            now,
            extra_use=extra_use,
        )
        if isinstance(plan, GangPreemption) and plan.victims:
            self._pending.nominate(ask.key, ask.criteria, plan.placement)
            for key in plan.victims:
                self._vacate(key)
            self._displaced += plan.victims
            return
        if self._pending.withdraw(ask.key):
            self._freed = True
        self._pending.record_failed_search(ask.alike, ask.criteria, "")
        until = find_end_of_protection(self._candidates.values(), strong, now)
        if until is not None and (self.protected_until is None or until < self.protected_until):
            self.protected_until = until

    def _vacate(self, key: str) -> None:
        """Free the room of a gang, and drop all remembered refusals, because other gangs may now fit."""
        held = self._held.pop(key, None)
        guests = tuple(held.guests) if held is not None else ()
        for guest in guests:
            self.capacity.release(guest)
        self._leave_places(guests)
        self._protect(key)
        self.shares.release(key)
        self._running.drop(key)
        self._pending.drop_refusals()
        self._freed = True

    def _record_wait(self, decisions: DecisionLog, ask: GangAsk, outcome: Refusal | KeptRoom, now: float) -> None:
        other, because, rule = "", "", NO_ROOM
        if isinstance(outcome, KeptRoom):
            rule, other = (NODES_KEPT, outcome.head.key) if outcome.head is not None else (NODES_NOMINATED, "")
        if not decisions.is_news(ask.subject, "Unplaced", rule):
            return
        pods = sum(ask.shapes.values())
        if isinstance(outcome, Refusal):
            because = explain(self.capacity, outcome, pods)
        elif other in self._asks:
            other = self._asks[other].subject.job
        decisions.add(
            describe_wait(
                ask.subject,
                tell_moment(now),
                rule=rule,
                because=because,
                priority=ask.criteria.priority,
                pods=pods,
                other=other,
            )
        )

    def _record_placement(self, decisions: DecisionLog, ask: GangAsk, placement: Placement, now: float) -> None:
        nodes: Counter[str] = Counter()
        for places in placement.nodes.values():
            nodes.update(dict(places))
        moment, criteria = tell_moment(now), ask.criteria
        rule = Demand.REPAIR if criteria.broken else Demand.START
        waited = (moment - criteria.created).total_seconds()
        decisions.add(
            describe_placement(ask.subject, nodes, moment, rule=rule, waited=waited, priority=criteria.priority)
        )

    def _start(self, ask: GangAsk, placement: Placement, now: float) -> None:
        del self._asks[ask.key]
        self._pending.forget(ask.key)
        held = self._held.setdefault(ask.key, _Held(ask, now, {}, {}))
        for shape, nodes in placement.nodes.items():
            spread = list(_split_pods(nodes)) if ask.is_elastic else nodes
            whole = {number: Guest(_multiply(shape.requests, number)) for number in {number for _, number in spread}}
            for node, number in spread:
                guest = f"{ask.key}/{next(self._serials)}/{node}"
                self.capacity.assign(guest, node, whole[number])
                held.guests[guest] = shape, number
                if ask.is_elastic:
                    held.ranks[next(index for index in count() if index not in held.ranks)] = guest
                if self._places is not None and not ask.has_places:
                    self._places.occupy(guest, node, whole[number].requests)
        self._count_use(held)
        self._freed |= self._pending.may_overtake_head(ask.criteria.tenant)

    def _count_use(self, held: _Held) -> None:
        """Record the use of a gang that has nodes: for its tenant, for reservations, and as a possible victim."""
        ask, guests, total = held.ask, tuple(held.guests), Counter[str]()
        for shape, number in held.guests.values():
            total.update(dict(_multiply(shape.requests, number)))
        self.shares.hold(ask.key, ask.criteria.tenant, tuple(sorted(total.items())))
        self._running.set(ask.key, RunningGang(guests, held.started, ask.end(held.started)), self.capacity)
        self._protect(ask.key)
        if (candidate := ask.precedence.candidate(ask.key, guests, held.started)) is not None:
            self._candidates[ask.key] = candidate
            self._resistances[candidate.resistance] += 1
            if self._weakest is None or candidate.resistance < self._weakest:
                self._weakest = candidate.resistance

    def _leave_places(self, guests: Iterable[str]) -> None:
        if self._places is not None and sum(self._places.leave(guest) for guest in guests):
            self._helped()

    def _protect(self, key: str) -> None:
        """Remove a gang from the gangs that others may preempt, if it is one of them."""
        if (candidate := self._candidates.pop(key, None)) is not None:
            self._resistances[candidate.resistance] -= 1
            if not self._resistances[candidate.resistance]:
                del self._resistances[candidate.resistance]
                self._weakest = min(self._resistances, default=None)


def _split_pods(nodes: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Yield each node as often as it has pods, each time with the number 1."""
    for node, number in nodes:
        yield from repeat((node, 1), number)


def _multiply(requests: Amounts, count: int) -> Amounts:
    return tuple((resource, amount * count) for resource, amount in requests)
