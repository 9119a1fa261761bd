"""Place gangs on the nodes of a simulation, by the scheduler's own decisions: order, reservation and backfill.

A gang holds what its pods use of a node as one guest, however many pods these are.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import count

from msgspec import Struct

from muster.api.core import Node, Pod
from muster.api.ours.decisions import Subject
from muster.controllers.decisionlog import DecisionLog
from muster.controllers.scheduler.deciding import Kept, decide_start
from muster.controllers.scheduler.decisions import (
    NO_ROOM,
    NODES_KEPT,
    NODES_NOMINATED,
    describe_placement,
    describe_wait,
)
from muster.controllers.scheduler.pending import PendingGangs, Standing, Waiter
from muster.gang.arrays import Ints
from muster.gang.demands import Demand
from muster.gang.explain import explain
from muster.gang.nodes.capacity import Capacity
from muster.gang.order.ends import End
from muster.gang.order.ledger import Ledger, Running
from muster.gang.order.reservation import MOST_OVERTAKINGS
from muster.gang.order.shares import Shares
from muster.gang.placement import Placement, Refusal, place
from muster.gang.quorum import Chosen
from muster.gang.shapes import Amounts, Guest, Shape, guest_of


class GangAsk(Struct, frozen=True, eq=False):
    """A gang that asks for nodes.

    alike: the key of the gangs that have the same pods: one refusal answers for all of them, whenever they end.
    shapes: its pods. lasts: when it ends, from its start; None if that is unknown. subject: its job, for records.
    """

    key: str
    alike: Hashable
    standing: Standing
    shapes: Mapping[Shape, int]
    lasts: End | None
    subject: Subject = Subject("")

    @classmethod
    def of(
        cls,
        key: str,
        standing: Standing,
        shapes: Mapping[Shape, int],
        lasts: End | None,
        subject: Subject = Subject(""),  # noqa: B008  (it is frozen)
    ) -> "GangAsk":
        """Return the ask of a gang."""
        return cls(key, frozenset(shapes.items()), standing, shapes, lasts, subject)

    @property
    def equivalence(self) -> Hashable:
        """The key of its equivalence class: its end counts too, because by it a gang may pass the head."""
        return self.alike, self.lasts

    def place(self, capacity: Capacity, taken: Ints | None = None) -> Chosen | Refusal:
        """Return the nodes of all pods, or why there are none."""
        outcome = self.placing(capacity, taken)
        return Chosen((), outcome) if isinstance(outcome, Placement) else outcome

    def placing(self, capacity: Capacity, taken: Ints | None) -> Placement | Refusal:
        """Return the nodes of all pods for a reservation, or why there are none."""
        return place(capacity, self.shapes, taken=taken)

    def end(self, now: float) -> End | None:
        """Return when the gang ends if it starts now; None if that is unknown."""
        return None if self.lasts is None else End(now + self.lasts.at, self.lasts.sure)


class _Held(Struct, frozen=True, eq=False):
    """A gang on nodes. ask: with which it started. started: in seconds since the epoch. guests: the pods of each."""

    ask: GangAsk
    started: float
    guests: dict[str, tuple[Shape, int]]


class Machines:
    """The nodes, the gangs on them, and the gangs that wait for them. Times are seconds since the epoch."""

    def __init__(self, nodes: Iterable[Node], overtakings: int = MOST_OVERTAKINGS) -> None:
        self.capacity = Capacity()
        self.shares = Shares()
        self._running = Ledger()
        self._overtakings = overtakings
        self._pending = self._make_pending()
        self._asks: dict[str, GangAsk] = {}  # of the gangs that wait
        self._held: dict[str, _Held] = {}  # the gangs on nodes
        self._serials = count()  # of guests
        self._freed = False  # whether room came free since the last sweep
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
        """Add or change a node. What ran there and must not has been freed. usual: the node while nothing is wrong."""
        self.capacity.set_node(node)
        self._empty.set_node(usual)
        self._note_nodes()

    def remove_node(self, name: str) -> None:
        """Remove a node on which nothing runs."""
        self.capacity.remove_node(name)
        self._empty.remove_node(name)
        self._note_nodes()

    def _note_nodes(self) -> None:
        self._pending.freed()
        self._freed = True

    def list_gangs_on(self, node: str) -> list[str]:
        """Return the keys of the gangs with pods on a node, in order."""
        return sorted({guest.rsplit("/", 2)[0] for guest in self.capacity.guests.on(node)})

    def break_gang(self, key: str, node: str) -> Counter[Shape]:
        """Free what a gang uses of one node, and return the pods that it loses. It keeps its other nodes."""
        held, lost = self._held[key], Counter[Shape]()
        for guest in [guest for guest in held.guests if guest.rpartition("/")[2] == node]:
            shape, number = held.guests.pop(guest)
            self.capacity.release(guest)
            lost[shape] += number
        self._asks.pop(key, None)
        self._pending.forget(key)
        if held.guests:
            self._count_use(held)
            self._note_nodes()
        else:
            self.free(key)
        return lost

    def runs(self, key: str) -> bool:
        """Return whether a gang has pods on nodes."""
        return key in self._held

    def forget_decisions(self) -> None:
        """Forget what a restart of the scheduler loses: refusals, reservations and who passed."""
        self._pending = self._make_pending()
        for ask in self._asks.values():
            self._pending.wait(ask.key, Waiter(ask.equivalence, ask.standing))
        self._freed = True

    def ask(self, ask: GangAsk, now: float) -> bool:
        """Return whether a gang starts at once; otherwise it waits, and `sweep` starts it."""
        self._asks[ask.key] = ask
        return self._try(ask, now)

    def take_up(self, ask: GangAsk, placement: Placement, started: float) -> None:
        """Let a gang run on nodes where it has run since then; what other nodes held is gone."""
        known = {
            shape: tuple(one for one in nodes if self.capacity.index_of(one[0]) is not None)
            for shape, nodes in placement.nodes.items()
        }
        self._asks[ask.key] = ask
        self._start(ask, Placement(known), started)

    def settle_pod(self, pod: Pod) -> None:
        """Let a pod that belongs to no gang stay on its node."""
        if self.capacity.index_of(pod.spec.node_name) is not None:
            self.capacity.assign(f"pod/{pod.metadata.uid}", pod.spec.node_name, guest_of(pod))

    def free(self, key: str) -> None:
        """Free what a gang uses that runs or waits; `sweep` then starts others."""
        self._asks.pop(key, None)
        self._pending.forget(key)
        held = self._held.pop(key, None)
        for guest in held.guests if held is not None else ():
            self.capacity.release(guest)
        self.shares.release(key)
        self._running.drop(key)
        self._pending.freed()
        self._freed = True

    def count_pods(self, key: str) -> Mapping[str, int]:
        """Return how many pods of a running gang each node has."""
        pods: Counter[str] = Counter()
        held = self._held.get(key)
        for guest, (_, number) in held.guests.items() if held is not None else ():
            pods[guest.rpartition("/")[2]] += number
        return pods

    def takes_ever(self, shapes: Mapping[Shape, int]) -> bool:
        """Return whether these pods would fit if nothing else ran."""
        return isinstance(place(self._empty, shapes), Placement)

    def sweep(self, now: float) -> Iterator[str]:
        """Yield the waiting gangs that start, if room came free."""
        if not self._freed:
            return
        self._freed = False
        keys = self._pending.sweep()
        for key in keys:  # grows meanwhile
            if (ask := self._asks.get(key)) is not None and self._try(ask, now):
                yield key
                if (alike := self._pending.next_alike(ask.equivalence)) is not None:
                    keys.append(alike)

    def _try(self, ask: GangAsk, now: float) -> bool:
        """Start a gang if it may; else let it wait, and reserve room for it if it is the first."""
        outcome = decide_start(self._pending, ask, self.capacity, now)
        if isinstance(outcome, Chosen):
            if self._record is not None:
                self._record_placement(self._record, ask, outcome.placement, now)
            self._start(ask, outcome.placement, now)
            return True
        if self._record is not None:
            self._record_wait(self._record, ask, outcome, now)
        waiter = Waiter(ask.equivalence, ask.standing)
        if isinstance(outcome, Refusal):
            self._pending.keep_for(ask.key, waiter, partial(ask.placing, self.capacity), now)
        else:
            assert isinstance(outcome, Kept), "there is no other answer"
        self._pending.wait(ask.key, waiter)
        return False

    def _record_wait(self, decisions: DecisionLog, ask: GangAsk, outcome: Refusal | Kept, now: float) -> None:
        other, because, rule = "", "", NO_ROOM
        if isinstance(outcome, Kept):
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
                _moment(now),
                rule=rule,
                because=because,
                priority=ask.standing.priority,
                pods=pods,
                other=other,
            )
        )

    def _record_placement(self, decisions: DecisionLog, ask: GangAsk, placement: Placement, now: float) -> None:
        nodes: Counter[str] = Counter()
        for places in placement.nodes.values():
            nodes.update(dict(places))
        moment, standing = _moment(now), ask.standing
        rule = Demand.REPAIR if standing.broken else Demand.START
        waited = (moment - standing.created).total_seconds()
        decisions.add(
            describe_placement(ask.subject, nodes, moment, rule=rule, waited=waited, priority=standing.priority)
        )

    def _start(self, ask: GangAsk, placement: Placement, now: float) -> None:
        del self._asks[ask.key]
        self._pending.forget(ask.key)
        held = self._held.setdefault(ask.key, _Held(ask, now, {}))
        for shape, nodes in placement.nodes.items():
            whole = {number: Guest(_multiply(shape.requests, number)) for number in {number for _, number in nodes}}
            for node, number in nodes:
                guest = f"{ask.key}/{next(self._serials)}/{node}"
                self.capacity.assign(guest, node, whole[number])
                held.guests[guest] = shape, number
        self._count_use(held)

    def _count_use(self, held: _Held) -> None:
        """Count what a gang uses for its tenant and for reservations."""
        ask, total = held.ask, Counter[str]()
        for shape, number in held.guests.values():
            total.update(dict(_multiply(shape.requests, number)))
        self.shares.hold(ask.key, ask.standing.tenant, tuple(sorted(total.items())))
        self._running.set(ask.key, Running(tuple(held.guests), held.started, ask.end(held.started)), self.capacity)


def _multiply(requests: Amounts, count: int) -> Amounts:
    return tuple((resource, amount * count) for resource, amount in requests)


def make_standing(priority: int, tenant: str, created: float, *, broken: bool = False) -> Standing:
    """Return the place of a gang in the order.

    created: in seconds since the epoch. broken: whether it lacks some of its pods only.
    """
    return Standing(broken=broken, priority=priority, tenant=tenant, created=_moment(created))


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
