"""Compute the scheduler's request for a gang: which pods need which nodes now, and where they fit. Pure."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from muster.api.core import Pod
from muster.controllers.gangs import (
    Gang,
    GangSource,
    Turn,
    existed_at,
    is_preempted,
    read_creation_time,
)
from muster.controllers.intents import Intent, find_unfinished_start, read_intent
from muster.controllers.scheduler.carrier import Carrier
from muster.controllers.scheduler.order import OrderCriteria
from muster.controllers.scheduler.roster import tenant_of
from muster.gang import arrays as np
from muster.gang.arrays import Ints
from muster.gang.demands import Demand
from muster.gang.fit.packing import Effort
from muster.gang.nodes.capacity import Capacity
from muster.gang.order.ends import EndTime, expected_end
from muster.gang.placement import Placement, Refusal, place
from muster.gang.quorum import Chosen, find_fewest, place_enough
from muster.gang.shapes import Asking, Shape, no_claims_known, shapes_of
from muster.gang.topology import place_near


class GangTurn(Struct, frozen=True, eq=False):
    """A gang's pods that are due to be placed together (its turn), with all inputs of the decision about them.

    shapes: the shapes of the pods, by UID.
    alike: the key of the gang's equivalence class: gangs with the same key get the same refusal.
    closed: the nodes on which the pods must not be placed, because the server refused to bind them there.
    running: the node of each running member; empty unless the gang has a topology constraint.
    """

    key: str
    gang: Gang
    turn: Turn
    carrier: Carrier | None
    shapes: Mapping[str, Shape]
    criteria: OrderCriteria
    alike: Hashable
    closed: frozenset[str] = frozenset()
    running: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        key: str,
        gang: Gang,
        turn: Turn,
        carrier: Carrier | None,
        capacity: Capacity,
        closed: frozenset[str],
        asking: Asking = no_claims_known,
    ) -> Self:
        """Make the request to place a gang's due pods, for the cluster's current capacity.

        asking: returns the devices that a pod requests.
        """
        shapes = shapes_of(turn.pods, capacity.watched, asking)
        oldest = min(turn.pods, key=lambda pod: read_creation_time(pod.metadata))
        criteria = OrderCriteria(turn.repairs, gang.priority, tenant_of(oldest), read_creation_time(oldest.metadata))
        running: tuple[str, ...] = ()
        if turn.topology is not None:
            assigned = [capacity.assigned(uid) for uid in gang.bound]
            running = tuple(sorted(known[0] for known in assigned if known is not None))
        counts = Counter(shapes.values())
        quorums = tuple(
            (frozenset(Counter(shapes[uid] for uid in quorum.pods if uid in shapes).items()), quorum.least)
            for quorum in turn.quorums
        )
        lasts = _find_end(gang, carrier, (oldest,), 0.0)
        alike = (frozenset(counts.items()), quorums, turn.topology, running, closed, lasts)
        return cls(key, gang, turn, carrier, shapes, criteria, alike, closed, running)

    @property
    def is_first(self) -> bool:
        """Whether no member of the gang runs yet, except members that are being deleted or evicted."""
        return self.turn.demand is Demand.START and not self._list_running_members()

    def intent(self, pods: Sequence[Pod], others: Iterable[Pod]) -> Intent | None:
        """Return the record, for a restarted scheduler, that these pods must be bound together; None if not needed.

        A start of several pods needs the record, and so do the unbound pods of a half-bound gang. Replacements and
        growth may be bound one by one. The record's time is the creation time of the youngest pod, from the server's
        clock, because the scheduler's clock may be wrong.

        others: the gated pods of the gang.
        """
        if self.turn.demand is Demand.START and len(pods) > 1:
            since = max(read_creation_time(pod.metadata) for pod in pods)
            return Intent(since, self._leaves_behind(pods, since, others))
        carrier = self.carrier.meta if self.carrier is not None else None
        half = find_unfinished_start(carrier, self.gang.bound.values(), pods) if self.turn.repairs else []
        return read_intent(half[0].metadata) if half else None

    def _leaves_behind(self, pods: Sequence[Pod], since: datetime, others: Iterable[Pod]) -> bool:
        """Return whether some members created until `since` are not among these pods.

        Only the carrier can record that.
        """
        if self.gang.source is None or self.carrier is None:
            return False
        going = {pod.metadata.uid for pod in pods}
        gated = [pod for pod in others if pod.spec.scheduling_gates]
        left = [pod for pod in (*self.gang.unbound.values(), *gated) if pod.metadata.uid not in going]
        members = self.gang.source.members(self.carrier.object, (*pods, *left)) if left else []
        return any(existed_at(pod, since) for pod in members if pod.metadata.uid not in going)

    def held(self, pods: Sequence[Pod]) -> int:
        """Return the size of the gang, for its carrier's record, after these pods have also started."""
        source, carrier = self._find_carrier()
        pods_by_uid = {pod.metadata.uid: pod for pod in (*self._list_running_members(), *pods)}
        return source.held(carrier.object, list(pods_by_uid.values()))

    def _list_running_members(self) -> list[Pod]:
        """Return the running members of the gang that are not being deleted or evicted."""
        if not self.gang.bound:
            return []
        source, carrier = self._find_carrier()
        staying = {uid: pod for uid, pod in self.gang.bound.items() if not is_preempted(pod)}
        members = source.members(carrier.object, (*staying.values(), *self.turn.pods))
        return [pod for pod in members if pod.metadata.uid in staying]

    def _find_carrier(self) -> tuple[GangSource[Any], Carrier]:
        assert self.gang.source is not None, "only a gang of a source is carried"
        assert self.carrier is not None, "only a carrier tells how many they are"
        return self.gang.source, self.carrier

    @property
    def fewest(self) -> Mapping[Shape, int]:
        """The least number of pods of each shape that must be placed for the gang to start."""
        pods = find_fewest(self.shapes, self.turn.quorums) if self.turn.quorums else self.shapes
        return Counter(self.shapes[uid] for uid in pods)

    def place(
        self, capacity: Capacity, extra_use: Ints | None = None, effort: Effort | None = None
    ) -> Chosen | Refusal:
        """Choose nodes for the pods; return the pods that get a node, or the refusal if too few fit.

        extra_use: the amounts on each node that count as used, in addition to the bound pods.
        effort: see `placement.place`.
        """
        effort = effort if effort is not None else Effort()
        within = np.array([name not in self.closed for name in capacity.names], np.bool_) if self.closed else None
        if self.turn.topology is None:
            anywhere = partial(place, capacity, within=within, extra_use=extra_use, effort=effort)
            return place_enough(anywhere, self.shapes, self.turn.quorums)
        near = partial(
            place_near, capacity, constraint=self.turn.topology, within=within, extra_use=extra_use, effort=effort
        )
        return place_enough(partial(near, running=self.running), self.shapes, self.turn.quorums)

    def place_without(
        self, capacity: Capacity, extra_use: Ints, gone: frozenset[str] = frozenset(), effort: Effort | None = None
    ) -> Placement | Refusal:
        """Choose nodes for the pods as if some running pods were deleted; return the placement, or the refusal.

        extra_use: the amounts to add to each node's use; negative where the deleted pods free room.
        gone: the UIDs of the deleted pods, which rules of affinity and spread ignore.
        """
        looking = gone and any(shape.meets_others for shape in self.shapes.values())
        with capacity.guests.without(gone if looking else ()):
            outcome = self.place(capacity, extra_use, effort)
        return outcome.placement if isinstance(outcome, Chosen) else outcome

    def bindings(self, chosen: Chosen) -> list[tuple[Pod, str]]:
        """Return each chosen pod with the name of its node."""
        nodes = {shape: chosen.placement.expand(shape) for shape in chosen.placement.nodes}
        going = frozenset(chosen.pods)
        pods = [pod for pod in self.turn.pods if pod.metadata.uid in going]
        return [(pod, next(nodes[self.shapes[pod.metadata.uid]])) for pod in pods]

    def without_node(self, node: str) -> Self:
        """Return a copy of the request that excludes one more node."""
        return replace(self, closed=self.closed | {node})

    def end(self, now: float) -> EndTime | None:
        """Return when the last of the pods ends if they start now; None if that is unknown.

        now: the current time, in seconds since the epoch.
        """
        return _find_end(self.gang, self.carrier, self.turn.pods, now)


def _find_end(gang: Gang, carrier: Carrier | None, pods: Iterable[Pod], started: float) -> EndTime | None:
    """Return when the last of the pods ends; None if that is unknown.

    started: when the pods start, in seconds since the epoch.
    """
    source = gang.source
    carried = source.end(carrier.object, started) if source is not None and carrier is not None else None
    ends = [expected_end(pod, started, carried) for pod in pods]
    return None if None in ends else max((end for end in ends if end is not None), key=lambda end: end.at)
