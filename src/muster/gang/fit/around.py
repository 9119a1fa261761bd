"""The pods around one that is to be placed: those on the nodes, and those of its gang that have a place already."""

from collections.abc import Callable, Iterable, Mapping
from typing import Self

import numpy as np

from muster.gang.exclusive import Hold
from muster.gang.nodes.capacity import Capacity, Ints, Mask
from muster.gang.shapes import Shape
from muster.gang.terms import Spread, Term

_NONE_PLACED: Mapping[Shape, Ints] = {}


class Around:
    """Answers by node index. What is on the nodes is looked up once for a decision, and must not change in between."""

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
        """The same, and so many pods of a shape more on each node."""
        before = self._placed.get(shape)
        placed = {**self._placed, shape: counts if before is None else before + counts}
        return type(self)(self.capacity, placed, self._known)

    def known(self, key: object, find: Callable[[], Ints]) -> Ints:
        """What is the same whatever of the gang has a place."""
        if (found := self._known.get(key)) is None:
            found = self._known[key] = find()
        return found

    def meant(self, terms: tuple[Term, ...]) -> Ints:
        """How many pods that all of the terms mean there are on each node."""
        if (found := self._known.get(terms)) is None:
            found = self._known[terms] = self.capacity.counts(self.capacity.guests.meant(terms))
        return self._plus(found, (shape for shape in self._placed if self.means(terms, shape)))

    def counted(self, spread: Spread, namespace: str) -> Ints:
        """How many pods that a spread constraint counts there are on each node."""
        key = spread, namespace
        if (found := self._known.get(key)) is None:
            found = self._known[key] = self.capacity.counts(self.capacity.guests.counted(spread, namespace))
        counted = (one for one in self._placed if spread.counts(namespace, one.namespace, dict(one.labels)))
        return self._plus(found, counted)

    def means(self, terms: Iterable[Term], shape: Shape) -> bool:
        """Whether all of the terms mean pods of a shape."""
        theirs = self.capacity.guests.namespaces.get(shape.namespace, {})
        return all(term.matches(shape.namespace, dict(shape.labels), theirs) for term in terms)

    def repelling(self, shape: Shape) -> Mask:
        """The nodes that pods of a shape are kept away from by others."""
        capacity = self.capacity
        key = "repelling", shape.namespace, shape.labels
        if (found := self._known.get(key)) is None:
            found = np.zeros(len(capacity.names), np.int64)
            for topology_key, names in capacity.guests.repelling(shape.namespace, dict(shape.labels)):
                found += capacity.in_places(topology_key, capacity.counts(dict.fromkeys(names, 1)) > 0)
            self._known[key] = found
        closed = found > 0
        for other, counts in self._placed.items():
            for term in other.terms.anti_affinity:
                if self.means((term,), shape):
                    closed = closed | capacity.in_places(term.topology_key, counts > 0)
        return closed

    def holding(self, hold: Hold) -> Mask:
        """The nodes with a pod that has what only one of the two can have."""
        if (found := self._known.get(hold)) is None:
            names = dict.fromkeys(self.capacity.guests.holders(hold), 1)
            found = self._known[hold] = self.capacity.counts(names)
        holding = (one for one in self._placed if any(hold.conflicts(other) for other in one.holds))
        return self._plus(found, holding) > 0

    def is_claimed(self, claim: str) -> bool:
        """Whether another pod uses a claim."""
        placed = (counts for shape, counts in self._placed.items() if claim in shape.claims)
        return self.capacity.guests.claimants(claim) > 0 or any(counts.any() for counts in placed)

    def _plus(self, found: Ints, shapes: Iterable[Shape]) -> Ints:
        for shape in shapes:
            found = found + self._placed[shape]
        return found
