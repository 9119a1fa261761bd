"""Decide which nodes other pods close to a pod, and how each placed pod limits the next pod of its shape.

A rule that closes nodes whatever else is placed is a mask. The other rules define how placed pods of a shape limit the
next pod of the same shape. A *place* is a topology domain: the nodes with the same value of a label.

- `single` and `Apart`: a node, or a place, takes only one pod.
- `Together`: all pods go to the place of the first pod.
- `Even`: the number of pods in a place may exceed the lowest number in any place by a limited difference.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from muster.gang import arrays as np
from muster.gang.arrays import Ints, Mask
from muster.gang.fit.around import Around
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
    """A limit that each placed pod of a shape puts on the next pod.

    A place is a topology domain. Places are numbered; a node outside all places has a negative number.
    """

    @property
    def places(self) -> Ints:
        """The number of each node's place, by node index."""
        ...

    @property
    def reason(self) -> str:
        """The reason why a node is closed, in kube-scheduler's words."""
        ...

    def find_closed(self) -> Mask:
        """Return the nodes that are closed to the next pod."""
        ...

    def quotas(self, room: Ints, pods: int) -> Ints:
        """Return how many of the pods each place gets.

        room: the number of pods that fit in each place.

        The sum is less than `pods` if not all pods can be placed.
        """
        ...


class Apart(Struct, frozen=True):
    """A rule that allows one pod per place. Nodes outside all places take as many pods as fit."""

    places: Ints
    reason: str = ANTI_AFFINITY

    def find_closed(self) -> Mask:
        """Return no nodes, because `ShapeLimits.closed` contains the nodes of places with earlier pods already."""
        return np.zeros(len(self.places), np.bool_)

    def quotas(self, room: Ints, pods: int) -> Ints:
        """Return one pod per place, for the places with the least room first."""
        quotas = np.zeros_like(room)
        usable = np.flatnonzero(room)
        quotas[usable[np.argsort(room[usable], kind="stable")][:pods]] = 1
        return quotas


class Together(Struct, frozen=True):
    """A rule that all pods go to the place of the first pod."""

    places: Ints
    reason: str = AFFINITY

    def find_closed(self) -> Mask:
        """Return the nodes outside all places."""
        return self.places < 0

    def quotas(self, room: Ints, pods: int) -> Ints:
        """Return all pods for the place with the least sufficient room, or else for the roomiest place."""
        quotas = np.zeros_like(room)
        if len(room):
            enough = np.where(room >= pods, room, np.iinfo(np.int64).max)
            chosen = int(np.argmin(enough)) if (room >= pods).any() else int(np.argmax(room))
            quotas[chosen] = min(int(room[chosen]), pods)
        return quotas


class Even(Struct, frozen=True):
    """A rule that the number of pods in a place may exceed the lowest number in any place by at most `max_skew`.

    counts: the number of pods in each place.
    eligible: whether each place counts for the lowest number.
    """

    places: Ints
    counts: Ints
    eligible: Mask
    max_skew: int
    least_places: int
    own: int = 1  # 1 if the next pod itself counts, else 0
    reason: str = SPREAD

    def find_closed(self) -> Mask:
        """Return the nodes of places that have reached the allowed difference already."""
        full = self.counts + self.own - self._find_fewest(self.counts) > self.max_skew
        closed = np.ones(len(self.places), np.bool_)
        inside = self.places >= 0
        closed[inside] = full[self.places[inside]]
        return closed

    def quotas(self, room: Ints, pods: int) -> Ints:
        """Return how many of the pods each place gets, the places with the fewest pods first.

        No place is filled to more than `max_skew` pods above the lowest number that the eligible places can reach. So
        an eligible place without room limits all others.

        room: the number of pods that fit in each place.
        """
        highest = self._find_fewest(self.counts + room) + self.max_skew
        most = np.clip(highest - self.counts, 0, room)
        if int(most.sum()) <= pods:
            return most
        # Bisects the level to which places are filled: `low` is too low, and `high` suffices.
        low, high = int(self.counts.min()), highest
        while high - low > 1:
            middle = (low + high) // 2
            if int(np.clip(middle - self.counts, 0, most).sum()) >= pods:
                high = middle
            else:
                low = middle
        quotas = np.clip(low - self.counts, 0, most)
        last = np.flatnonzero(np.clip(high - self.counts, 0, most) > quotas)
        quotas[last[: pods - int(quotas.sum())]] += 1
        return quotas

    def _find_fewest(self, counts: Ints) -> int:
        eligible = counts[self.eligible]
        return 0 if len(eligible) < self.least_places or not len(eligible) else int(eligible.min())


class ShapeLimits(Struct, frozen=True):
    """The limits that other pods put on a shape.

    closed: the nodes that stay closed whatever the gang does, by reason, in the order in which reasons are checked.
    single: the nodes that take only one pod of the shape.
    """

    closed: tuple[tuple[str, Mask], ...] = ()
    single: Mask | None = None
    rules: tuple[Rule, ...] = ()

    def apply(self, fits: Ints) -> None:
        """Apply all limits except the rules to `fits`, the number of pods that each node can take."""
        for _, closed in self.closed:
            fits[closed] = 0
        if self.single is not None:
            np.minimum(fits, 1, out=fits, where=self.single)

    def apply_to_next(self, fits: Ints) -> None:
        """Apply the limits for the next pod to `fits`, the number of pods that each node can take."""
        self.apply(fits)
        for rule in self.rules:
            fits[rule.find_closed()] = 0
            if isinstance(rule, Apart):
                np.minimum(fits, 1, out=fits, where=rule.places >= 0)


NO_LIMITS = ShapeLimits()


def limits_of(around: Around, shape: Shape, *, mates: bool = False, wishes: bool = False) -> ShapeLimits:
    """Return the limits that other pods put on a shape.

    mates: whether to leave out limits that other pods of the gang may still lift.
    wishes: whether to treat the shape's preferences about its own pods as required.
    """
    if not shape.meets_others:
        return NO_LIMITS  # the usual case
    apart = [*_list_apart_rules(around, shape, wishes=wishes)]
    alone = [rule for rule in apart if _is_node_by_node(rule)]
    single = np.logical_or.reduce([rule.places >= 0 for rule in alone]) if alone else None
    if any(hold.conflicts(other) for hold in shape.holds for other in shape.holds):
        single = np.ones(len(around.capacity.names), np.bool_)
    closed = [*_list_held(around, shape)]
    rules: list[Rule] = [rule for rule in apart if not _is_node_by_node(rule)]
    if not mates:
        _add_spread(around, shape, [one for one in shape.terms.spread if one.required], closed, rules)
        _add_affinity(around, shape, closed, rules)
    closed += _list_anti_affinity(around, shape)
    if wishes:
        _add_spread(around, shape, [one for one in shape.terms.spread if not one.required], closed, rules)
        rules += _list_together_rules(around, shape)
    return ShapeLimits(tuple(closed), single, tuple(rules))


def has_own_wishes(around: Around, shape: Shape) -> bool:
    """Return whether the shape has preferences about its own pods."""
    if any(not spread.required for spread in shape.terms.spread):
        return True
    return any(around.selects((wish.term,), shape) for wish in shape.terms.wishes)


def _list_held(around: Around, shape: Shape) -> Iterator[tuple[str, Mask]]:
    for hold in shape.holds:
        yield PORTS if hold.is_port else DISKS, around.find_holding(hold)
    for claim in shape.claims:
        if around.capacity.volumes.is_for_one_pod(claim) and around.is_claimed(claim):
            yield CLAIM_IN_USE, np.ones(len(around.capacity.names), np.bool_)


def _list_apart_rules(around: Around, shape: Shape, *, wishes: bool) -> Iterator[Apart]:
    """Yield the rules by which a pod of the shape closes topology domains to other pods of the same shape."""
    unliked = [wish.term for wish in shape.terms.wishes if wish.weight < 0] if wishes else []
    for term in (*shape.terms.anti_affinity, *unliked):
        if around.selects((term,), shape):
            yield Apart(around.capacity.places(term.topology_key))
    if any(around.capacity.volumes.is_for_one_pod(claim) for claim in shape.claims):
        yield Apart(np.zeros(len(around.capacity.names), np.int64), reason=CLAIM_IN_USE)


def _list_anti_affinity(around: Around, shape: Shape) -> Iterator[tuple[str, Mask]]:
    for term in shape.terms.anti_affinity:
        yield ANTI_AFFINITY, around.capacity.in_places(term.topology_key, around.count_selected((term,)) > 0)
    yield EXISTING, around.find_repelling(shape)


def _add_affinity(around: Around, shape: Shape, closed: list[tuple[str, Mask]], rules: list[Rule]) -> None:
    terms = shape.terms.affinity
    if not terms:
        return
    capacity = around.capacity
    meant = around.count_selected(terms)
    masks = [capacity.in_places(term.topology_key, meant > 0) for term in terms]
    if any(mask.any() for mask in masks):
        closed.append((AFFINITY, ~np.logical_and.reduce(masks)))
    elif around.selects(terms, shape):  # the first pod of a group with affinity to itself
        rules.append(Together(capacity.places(*(term.topology_key for term in terms))))
    else:
        closed.append((AFFINITY, np.ones(len(capacity.names), np.bool_)))


def _list_together_rules(around: Around, shape: Shape) -> Iterator[Together]:
    """Yield the rules for preferences of a shape to have its own pods nearby.

    If preferred pods run already, scores prefer their nodes, so no rule is needed.
    """
    for wish in shape.terms.wishes:
        if wish.weight > 0 and around.selects((wish.term,), shape) and not around.count_selected((wish.term,)).any():
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
    """Add the rule of a topology spread constraint.

    If the shape's own pods do not count for it, the rule closes nodes once, and is added to `closed` instead.
    """
    places = around.capacity.places(spread.topology_key)
    counting = around.get_or_find(
        ("counting", shape, spread), lambda: _find_counting_nodes(around, shape, spread, spreads)
    )
    size, inside = int(places.max(initial=-1)) + 1, places[counting]
    counts = np.bincount(inside, around.count_matching(spread, shape.namespace)[counting], size).astype(np.int64)
    eligible = around.get_or_find(("eligible", shape, spread), lambda: np.bincount(inside, minlength=size)) > 0
    own = int(spread.matcher.matches(dict(shape.labels)))
    rule = Even(places, counts, eligible, spread.max_skew, spread.least_places, own)
    if spread.counts(shape.namespace, shape.namespace, dict(shape.labels)):
        rules.append(rule)
    else:  # the shape's own pods do not count
        closed.append((SPREAD, rule.find_closed()))


def _find_counting_nodes(around: Around, shape: Shape, spread: Spread, spreads: Sequence[Spread]) -> Ints:
    """Return the indexes of the nodes that count for an even spread.

    They have the topology keys of all the shape's spreads. The spread defines whether affinity and taints exclude
    nodes.
    """
    capacity = around.capacity
    counting = np.logical_and.reduce([capacity.places(one.topology_key) >= 0 for one in spreads])
    if spread.honours_affinity:
        counting = counting & capacity.find_selected(shape)
    if spread.honours_taints:
        counting = counting & capacity.tolerated(shape)
    return np.flatnonzero(counting)


def _is_node_by_node(rule: Apart) -> bool:
    inside = rule.places[rule.places >= 0]
    return len(inside) == 0 or int(np.bincount(inside).max()) <= 1
