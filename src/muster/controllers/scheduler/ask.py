"""What a turn of a gang asks of the cluster, and where it goes: pure."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import Self

import numpy as np
from msgspec import Struct

from muster.api.core import Pod
from muster.controllers.gangs import Gang, Turn, created
from muster.controllers.scheduler.carrier import Carrier
from muster.controllers.scheduler.pending import Standing
from muster.controllers.scheduler.roster import tenant_of
from muster.gang.nodes.capacity import Capacity, Ints
from muster.gang.order.ends import End, expected_end
from muster.gang.placement import Placement, Refusal, place
from muster.gang.quorum import Chosen, fewest, place_enough
from muster.gang.shapes import Shape, shapes_of
from muster.gang.topology import place_near


class Ask(Struct, frozen=True, eq=False):
    """A turn, and all that decides about it.

    shapes: of its pods, by UID. alike: what other gangs have to ask for to be refused as this one is.
    closed: nodes that its pods may not go to, as the server would not have them there.
    running: the nodes of those members that run, one for each, if it matters.
    """

    key: str
    gang: Gang
    turn: Turn
    carrier: Carrier | None
    shapes: Mapping[str, Shape]
    standing: Standing
    alike: Hashable
    closed: frozenset[str] = frozenset()
    running: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, key: str, gang: Gang, turn: Turn, carrier: Carrier | None, capacity: Capacity, closed: frozenset[str]
    ) -> Self:
        """What the turn asks for now."""
        shapes = shapes_of(turn.pods, capacity.watched)
        oldest = min(turn.pods, key=lambda pod: created(pod.metadata))
        standing = Standing(turn.repairs, gang.priority, tenant_of(oldest), created(oldest.metadata))
        running: tuple[str, ...] = ()
        if turn.topology is not None:
            assigned = [capacity.assigned(uid) for uid in gang.bound]
            running = tuple(sorted(known[0] for known in assigned if known is not None))
        counts = Counter(shapes.values())
        quorums = tuple(
            (frozenset(Counter(shapes[uid] for uid in quorum.pods if uid in shapes).items()), quorum.least)
            for quorum in turn.quorums
        )
        lasts = _end(gang, carrier, (oldest,), 0.0)
        alike = (frozenset(counts.items()), quorums, turn.topology, running, closed, lasts)
        return cls(key, gang, turn, carrier, shapes, standing, alike, closed, running)

    @property
    def fewest(self) -> Mapping[Shape, int]:
        """What has to be placed at least."""
        pods = fewest(self.shapes, self.turn.quorums) if self.turn.quorums else self.shapes
        return Counter(self.shapes[uid] for uid in pods)

    def place(self, capacity: Capacity, taken: Ints | None = None) -> Chosen | Refusal:
        """Which of the pods go, and where, beside what is taken; or why none does."""
        within = np.array([name not in self.closed for name in capacity.names], np.bool_) if self.closed else None
        if self.turn.topology is None:
            return place_enough(partial(place, capacity, within=within, taken=taken), self.shapes, self.turn.quorums)
        near = partial(place_near, capacity, constraint=self.turn.topology, within=within, taken=taken)
        return place_enough(partial(near, running=self.running), self.shapes, self.turn.quorums)

    def placing(self, capacity: Capacity, taken: Ints, gone: frozenset[str] = frozenset()) -> Placement | Refusal:
        """Where they go, beside what is taken. gone: pods that are as if they had gone; `taken` has their room."""
        looking = gone and any(shape.meets_others for shape in self.shapes.values())
        with capacity.guests.without(gone if looking else ()):
            outcome = self.place(capacity, taken)
        return outcome.placement if isinstance(outcome, Chosen) else outcome

    def bindings(self, chosen: Chosen) -> list[tuple[Pod, str]]:
        """The node of each pod that goes."""
        nodes = {shape: chosen.placement.expand(shape) for shape in chosen.placement.nodes}
        going = frozenset(chosen.pods)
        pods = [pod for pod in self.turn.pods if pod.metadata.uid in going]
        return [(pod, next(nodes[self.shapes[pod.metadata.uid]])) for pod in pods]

    def end(self, now: float) -> End | None:
        """When it ends if it starts now; None if that is not known."""
        return _end(self.gang, self.carrier, self.turn.pods, now)


def _end(gang: Gang, carrier: Carrier | None, pods: Iterable[Pod], started: float) -> End | None:
    """When the last of the pods ends; None if that is not known."""
    source = gang.source
    carried = source.end(carrier.object, started) if source is not None and carrier is not None else None
    ends = [expected_end(pod, started, carried) for pod in pods]
    return None if None in ends else max((end for end in ends if end is not None), key=lambda end: end.at)
