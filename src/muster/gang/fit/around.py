"""Count the pods that affect a pod to be placed: pods on the nodes, and pods of its gang that already have a node."""

from collections.abc import Callable, Iterable, Mapping
from typing import Self

from muster.gang import arrays as np
from muster.gang.arrays import Ints, Mask
from muster.gang.exclusive import Hold
from muster.gang.nodes.capacity import Capacity
from muster.gang.shapes import Shape
from muster.gang.terms import Spread, Term

_NONE_PLACED: Mapping[Shape, Ints] = {}


class Around:
    """The pods that affect the placement of a gang: pods on the nodes, and already placed pods of the gang itself.

    The rules of pod affinity, spread, ports and disks read them, mostly as counts by node index. The pods on the nodes
    are read once per decision, and must not change during the decision.
    """

    def __init__(
        self,
        capacity: Capacity,
        placed: Mapping[Shape, Ints] = _NONE_PLACED,
        known: dict[object, Ints] | None = None,
    ) -> None:
        self.capacity = capacity
        self._placed = placed
        self._known: dict[object, Ints] = {} if known is None else known

    def with_placed(self, shape: Shape, counts: Ints) -> Self:
        """Return a copy that also counts these placed pods of a shape.

        counts: the number of pods by node index.
        """
        before = self._placed.get(shape)
        placed = {**self._placed, shape: counts if before is None else before + counts}
        return type(self)(self.capacity, placed, self._known)

    def get_or_find(self, key: object, find: Callable[[], Ints]) -> Ints:
        """Return the cached counts for a key; if there are none, call `find` and cache its result.

        key: identifies the result, which must not depend on the placed pods of the gang.
        """
        if (numbers := self._known.get(key)) is None:
            numbers = self._known[key] = find()
        return numbers

    def count_selected(self, terms: tuple[Term, ...]) -> Ints:
        """Return how many pods are selected by all of the terms, by node index."""
        if (counts := self._known.get(terms)) is None:
            counts = self._known[terms] = self.capacity.counts(self.capacity.guests.count_selected(terms))
        return self._add_placed(counts, (shape for shape in self._placed if self.selects(terms, shape)))

    def count_matching(self, spread: Spread, namespace: str) -> Ints:
        """Return how many pods a spread constraint counts, by node index."""
        key = spread, namespace
        if (counts := self._known.get(key)) is None:
            counts = self._known[key] = self.capacity.counts(self.capacity.guests.count_matching(spread, namespace))
        counted = (one for one in self._placed if spread.counts(namespace, one.namespace, dict(one.labels)))
        return self._add_placed(counts, counted)

    def selects(self, terms: Iterable[Term], shape: Shape) -> bool:
        """Return whether all of the terms select pods of this shape."""
        theirs = self.capacity.guests.namespaces.get(shape.namespace, {})
        return all(term.matches(shape.namespace, dict(shape.labels), theirs) for term in terms)

    def find_repelling(self, shape: Shape) -> Mask:
        """Return the nodes that other pods' anti-affinity closes to pods of a shape."""
        capacity = self.capacity
        key = "repelling", shape.namespace, shape.labels
        if (repelled := self._known.get(key)) is None:
            repelled = np.zeros(len(capacity.names), np.int64)
            for topology_key, names in capacity.guests.yield_repelling(shape.namespace, dict(shape.labels)):
                repelled += capacity.in_places(topology_key, capacity.counts(dict.fromkeys(names, 1)) > 0)
            self._known[key] = repelled
        closed = repelled > 0
        for other, counts in self._placed.items():
            for term in other.terms.anti_affinity:
                if self.selects((term,), shape):
                    closed = closed | capacity.in_places(term.topology_key, counts > 0)
        return closed

    def find_holding(self, hold: Hold) -> Mask:
        """Return the nodes with a pod whose port or disk conflicts with this one."""
        if (counts_of_holders := self._known.get(hold)) is None:
            names = dict.fromkeys(self.capacity.guests.holders(hold), 1)
            counts_of_holders = self._known[hold] = self.capacity.counts(names)
        holding = (one for one in self._placed if any(hold.conflicts(other) for other in one.holds))
        return self._add_placed(counts_of_holders, holding) > 0

    def is_claimed(self, claim: str) -> bool:
        """Return whether another pod uses the PersistentVolumeClaim."""
        placed = (counts for shape, counts in self._placed.items() if claim in shape.claims)
        return self.capacity.guests.claimants(claim) > 0 or any(counts.any() for counts in placed)

    def _add_placed(self, counts: Ints, shapes: Iterable[Shape]) -> Ints:
        for shape in shapes:
            counts = counts + self._placed[shape]
        return counts
