"""What the pods around it allow a pod: which nodes are closed to it, and what a pod placed does to the next like it.

A rule that closes nodes whatever becomes of the gang is a mask. The others say what a pod of a shape does to the next
one of the same shape: it takes its node, or its place, for itself (`single`, `Apart`); it draws the rest after it
(`Together`); it may only be so far ahead of the places that have the fewest (`Even`).
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct

from muster.gang.fit.around import Around
from muster.gang.nodes.capacity import Ints, Mask
from muster.gang.shapes import Shape
from muster.gang.terms import Spread

PORTS = "node(s) didn't have free ports for the requested pod ports"
DISKS = "node(s) had no available disk"
CLAIM_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
SPREAD = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{SPREAD} (missing required label)"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


class Rule(Protocol):
    """What a pod of a shape does to the next, by place; the places are numbers, negative where a node is in none."""

    @property
    def places(self) -> Ints:
        """The place of each node."""
        ...

    @property
    def reason(self) -> str:
        """Why a node is closed, in the scheduler's words."""
        ...

    def closed(self) -> Mask:
        """The nodes that are closed to the very next pod."""
        ...

    def quotas(self, room: Ints, wanted: int) -> Ints:
        """How many of the wanted pods go to each place, if so many have room there; fewer if not all can go."""
        ...


class Apart(Struct, frozen=True):
    """One pod in each place; as many as fit on nodes that are in none."""

    places: Ints
    reason: str = ANTI_AFFINITY

    def closed(self) -> Mask:
        """None: those near pods that are there already are closed by themselves."""
        return np.zeros(len(self.places), np.bool_)

    def quotas(self, room: Ints, wanted: int) -> Ints:
        """The places with the least room first."""
        quotas = np.zeros_like(room)
        usable = np.flatnonzero(room)
        quotas[usable[np.argsort(room[usable], kind="stable")][:wanted]] = 1
        return quotas


class Together(Struct, frozen=True):
    """All pods in the place of the first."""

    places: Ints
    reason: str = AFFINITY

    def closed(self) -> Mask:
        """Nodes that are in no place."""
        return self.places < 0

    def quotas(self, room: Ints, wanted: int) -> Ints:
        """The place with the least room that is enough, or else with the most."""
        quotas = np.zeros_like(room)
        if len(room):
            enough = np.where(room >= wanted, room, np.iinfo(np.int64).max)
            chosen = int(np.argmin(enough)) if (room >= wanted).any() else int(np.argmax(room))
            quotas[chosen] = min(int(room[chosen]), wanted)
        return quotas


class Even(Struct, frozen=True):
    """No place is further ahead of the place with the fewest than allowed.

    counts: the pods in each place; eligible: whether it is one of those with the fewest, if it has the fewest.
    """

    places: Ints
    counts: Ints
    eligible: Mask
    max_skew: int
    least_places: int
    own: int = 1  # whether the next pod is counted
    reason: str = SPREAD

    def closed(self) -> Mask:
        """Nodes of places that are as far ahead as is allowed."""
        full = self.counts + self.own - self._fewest(self.counts) > self.max_skew
        closed = np.ones(len(self.places), np.bool_)
        inside = self.places >= 0
        closed[inside] = full[self.places[inside]]
        return closed

    def quotas(self, room: Ints, wanted: int) -> Ints:
        """Those with the fewest first. What has no room any more holds up the others."""
        highest = self._fewest(self.counts + room) + self.max_skew
        most = np.clip(highest - self.counts, 0, room)
        if int(most.sum()) <= wanted:
            return most
        low, high = int(self.counts.min()), highest  # the level to which all are filled: too low, high enough
        while high - low > 1:
            middle = (low + high) // 2
            if int(np.clip(middle - self.counts, 0, most).sum()) >= wanted:
                high = middle
            else:
                low = middle
        quotas = np.clip(low - self.counts, 0, most)
        last = np.flatnonzero(np.clip(high - self.counts, 0, most) > quotas)
        quotas[last[: wanted - int(quotas.sum())]] += 1
        return quotas

    def _fewest(self, counts: Ints) -> int:
        found = counts[self.eligible]
        return 0 if len(found) < self.least_places or not len(found) else int(found.min())


class Limits(Struct, frozen=True):
    """What the pods around allow a shape.

    closed: nodes that no pod of the gang opens any more, by reason, in the order in which they are looked at.
    single: nodes that take one pod of the shape.
    """

    closed: tuple[tuple[str, Mask], ...] = ()
    single: Mask | None = None
    rules: tuple[Rule, ...] = ()

    def apply(self, fits: Ints) -> None:
        """Lower how many pods each node can take, by all but the rules."""
        for _, closed in self.closed:
            fits[closed] = 0
        if self.single is not None:
            np.minimum(fits, 1, out=fits, where=self.single)

    def apply_to_next(self, fits: Ints) -> None:
        """Lower how many pods each node can take, as if no pod came before."""
        self.apply(fits)
        for rule in self.rules:
            fits[rule.closed()] = 0
            if isinstance(rule, Apart):
                np.minimum(fits, 1, out=fits, where=rule.places >= 0)


NO_LIMITS = Limits()


def limits_of(around: Around, shape: Shape, *, mates: bool = False, wishes: bool = False) -> Limits:
    """What the pods around allow a shape.

    mates: leave out what others of the gang could yet open. wishes: as if what it wishes for of its own were required.
    """
    if not shape.meets_others:
        return NO_LIMITS  # as for most
    apart = [*_apart(around, shape, wishes=wishes)]
    alone = [rule for rule in apart if _is_node_by_node(rule)]
    single = np.logical_or.reduce([rule.places >= 0 for rule in alone]) if alone else None
    if any(hold.conflicts(other) for hold in shape.holds for other in shape.holds):
        single = np.ones(len(around.capacity.names), np.bool_)
    closed = [*_held(around, shape)]
    rules: list[Rule] = [rule for rule in apart if not _is_node_by_node(rule)]
    if not mates:
        _add_spread(around, shape, [one for one in shape.terms.spread if one.required], closed, rules)
        _add_affinity(around, shape, closed, rules)
    closed += _anti_affinity(around, shape)
    if wishes:
        _add_spread(around, shape, [one for one in shape.terms.spread if not one.required], closed, rules)
        rules += _drawn(around, shape)
    return Limits(tuple(closed), single, tuple(rules))


def has_own_wishes(around: Around, shape: Shape) -> bool:
    """Whether it wishes for something that its own pods do to each other."""
    if any(not spread.required for spread in shape.terms.spread):
        return True
    return any(around.means((wish.term,), shape) for wish in shape.terms.wishes)


def _held(around: Around, shape: Shape) -> Iterator[tuple[str, Mask]]:
    for hold in shape.holds:
        yield PORTS if hold.is_port else DISKS, around.holding(hold)
    for claim in shape.claims:
        if around.capacity.volumes.is_for_one_pod(claim) and around.is_claimed(claim):
            yield CLAIM_IN_USE, np.ones(len(around.capacity.names), np.bool_)


def _apart(around: Around, shape: Shape, *, wishes: bool) -> Iterator[Apart]:
    """What a pod of the shape closes to others of it."""
    unliked = [wish.term for wish in shape.terms.wishes if wish.weight < 0] if wishes else []
    for term in (*shape.terms.anti_affinity, *unliked):
        if around.means((term,), shape):
            yield Apart(around.capacity.places(term.topology_key))
    if any(around.capacity.volumes.is_for_one_pod(claim) for claim in shape.claims):
        yield Apart(np.zeros(len(around.capacity.names), np.int64), reason=CLAIM_IN_USE)


def _anti_affinity(around: Around, shape: Shape) -> Iterator[tuple[str, Mask]]:
    for term in shape.terms.anti_affinity:
        yield ANTI_AFFINITY, around.capacity.in_places(term.topology_key, around.meant((term,)) > 0)
    yield EXISTING, around.repelling(shape)


def _add_affinity(around: Around, shape: Shape, closed: list[tuple[str, Mask]], rules: list[Rule]) -> None:
    terms = shape.terms.affinity
    if not terms:
        return
    capacity = around.capacity
    meant = around.meant(terms)
    found = [capacity.in_places(term.topology_key, meant > 0) for term in terms]
    if any(mask.any() for mask in found):
        closed.append((AFFINITY, ~np.logical_and.reduce(found)))
    elif around.means(terms, shape):  # the first of a group that is to be with itself
        rules.append(Together(capacity.places(*(term.topology_key for term in terms))))
    else:
        closed.append((AFFINITY, np.ones(len(capacity.names), np.bool_)))


def _drawn(around: Around, shape: Shape) -> Iterator[Together]:
    """Where it would rather be with itself; where others are whom it likes, it is drawn there anyway."""
    for wish in shape.terms.wishes:
        if wish.weight > 0 and around.means((wish.term,), shape) and not around.meant((wish.term,)).any():
            yield Together(around.capacity.places(wish.term.topology_key))


def _add_spread(
    around: Around, shape: Shape, spreads: Sequence[Spread], closed: list[tuple[str, Mask]], rules: list[Rule]
) -> None:
    for spread in spreads:
        closed.append((NO_LABEL, around.capacity.places(spread.topology_key) < 0))
        _add_even(around, shape, spread, spreads, closed, rules)


def _add_even(
    around: Around,
    shape: Shape,
    spread: Spread,
    spreads: Sequence[Spread],
    closed: list[tuple[str, Mask]],
    rules: list[Rule],
) -> None:
    places = around.capacity.places(spread.topology_key)
    counting = around.known(("counting", shape, spread), lambda: _counting(around, shape, spread, spreads))
    size, inside = int(places.max(initial=-1)) + 1, places[counting]
    counts = np.bincount(inside, around.counted(spread, shape.namespace)[counting], size).astype(np.int64)
    eligible = around.known(("eligible", shape, spread), lambda: np.bincount(inside, minlength=size)) > 0
    own = int(spread.matcher.matches(dict(shape.labels)))
    rule = Even(places, counts, eligible, spread.max_skew, spread.least_places, own)
    if spread.counts(shape.namespace, shape.namespace, dict(shape.labels)):
        rules.append(rule)
    else:  # the shape's own pods change nothing
        closed.append((SPREAD, rule.closed()))


def _counting(around: Around, shape: Shape, spread: Spread, spreads: Sequence[Spread]) -> Ints:
    """The nodes that count for an even spread, by index."""
    capacity = around.capacity
    counting = np.logical_and.reduce([capacity.places(one.topology_key) >= 0 for one in spreads])
    if spread.honours_affinity:
        counting = counting & capacity.selected(shape)
    if spread.honours_taints:
        counting = counting & capacity.tolerated(shape)
    return np.flatnonzero(counting)


def _is_node_by_node(rule: Apart) -> bool:
    inside = rule.places[rule.places >= 0]
    return len(inside) == 0 or int(np.bincount(inside).max()) <= 1
