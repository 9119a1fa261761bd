"""Decide how many pods of one shape each node gets, to place all pods or as many as possible.

With at most one rule between the pods the result is exact. With several rules the pods are placed one by one, as
kube-scheduler places single pods. A placement that is found is valid, but a valid placement may be missed.
"""

from msgspec import Struct

from muster.gang import arrays as np
from muster.gang.arrays import Floats, Ints
from muster.gang.fit.around import Around
from muster.gang.fit.rules import Even, Rule, ShapeLimits, limits_of
from muster.gang.fit.scoring import compute_worths, score_nodes
from muster.gang.nodes.capacity import Capacity, Strategy
from muster.gang.shapes import Shape

# The maximum number of pods, over all nodes, whose worth is computed individually. More pods are packed tightly.
_WORTHS = 4_000_000

# The maximum of pods times nodes to place one by one, which takes a second or two. More would delay all other gangs.
MOST_TURNS = 10_000_000

_HUGE, _SHORT = 2**63 - 1, 2**15 - 1  # limits of array element types


class Filled(Struct, frozen=True):
    """The number of pods that each node gets, by node index.

    exact: if not all pods are placed, whether it is proven that no more of them fit.
    one: the index of the node that gets all pods; None if several nodes get pods.
    """

    counts: Ints
    exact: bool = True
    one: int | None = None

    @property
    def total(self) -> int:
        """The number of pods that get a node."""
        return int(self.counts.sum() if self.one is None else self.counts[self.one])

    @property
    def nodes(self) -> Ints:
        """The indexes of the nodes that get pods."""
        return np.flatnonzero(self.counts) if self.one is None else np.array([self.one], np.int64)


def fill(
    around: Around,
    shape: Shape,
    fits: Ints,
    limits: ShapeLimits,
    pods: int,
    extra_use: Ints | None,
    *,
    wishes: bool = False,
) -> Filled:
    """Choose nodes for up to `pods` pods; return how many pods each node gets.

    fits: the number of pods that each node can take, by node index; the function changes it.
    extra_use: additional use of the nodes; None for none.
    wishes: whether `limits` treat the shape's preferences about its own pods as required.

    Of equal nodes, the first by name is preferred.
    """
    if len(limits.rules) > 1:
        if (few := _place_by_limiting_rule(limits, fits, pods)) is not None:
            return Filled(few)
        if pods * len(fits) > MOST_TURNS:
            return Filled(np.zeros_like(fits), exact=False)
        return _place_one_by_one(around, shape, fits, pods, extra_use, wishes=wishes)
    roomiest = int(fits.max(initial=0))
    if not limits.rules and roomiest < pods and int(np.minimum(fits, pods).sum()) < pods:
        return Filled(fits)
    capacity, liked = around.capacity, score_nodes(around, shape)
    if not limits.rules and liked is None and capacity.strategy is Strategy.TIGHT and 0 < pods <= roomiest:
        return _fill_one(capacity, fits, pods)
    order = capacity.by_name
    liked = liked[order] if liked is not None else None
    rule = limits.rules[0] if limits.rules else None
    if rule is not None and not isinstance(rule, Even):
        fits[rule.find_closed()] = 0
    counts, ordered = np.zeros_like(fits), fits[order]
    most = min(int(fits.max(initial=0)), pods)  # computed after the rule has closed nodes
    tight = capacity.strategy is Strategy.TIGHT or most * len(fits) > _WORTHS
    if rule is None and tight:
        counts[order] = _pack_pods(ordered, pods, liked)
        return Filled(counts)
    np.minimum(ordered, pods, out=ordered)  # avoids integer overflow in sums
    places, quotas = np.zeros_like(fits), np.array([pods])
    if rule is not None:
        places, quotas = _split_quotas(rule, rule.places[order], ordered, pods)
    if tight:
        counts[order] = _pack_by_place(ordered, places, quotas, liked)
    else:
        worth = compute_worths(capacity, shape, extra_use, most)[order]
        counts[order] = _pack_best_by_place(worth, ordered, places, quotas, liked)
    return Filled(counts)


def _place_by_limiting_rule(limits: ShapeLimits, fits: Ints, pods: int) -> Ints | None:
    """Return the number of pods per node if a single rule limits their total number; None if no rule does so alone."""
    for rule in limits.rules:
        room = np.minimum(fits, pods)
        if not isinstance(rule, Even):
            room[rule.find_closed()] = 0
        places, quotas = _split_quotas(rule, rule.places, room, pods)
        if int(quotas.sum()) < pods:
            return _pack_by_place(room, places, quotas, None)
    return None


def _fill_one(capacity: Capacity, fits: Ints, pods: int) -> Filled:
    """Place all pods on one node: the node that is left with the least room.

    The result is the same as that of `_pack_pods`, but found without sorting.
    """
    left = (fits - pods).view(np.uint64)  # as unsigned, negative numbers are the greatest
    order, counts = capacity.by_name, np.zeros_like(fits)
    node = int(order[left[order].argmin()])
    counts[node] = pods
    return Filled(counts, one=node)


def _pack_pods(fits: Ints, pods: int, liked: Ints | None) -> Ints:
    """Fill the best-scored and roomiest nodes, and place the rest on the node that is left with the least room.

    fits: how many pods each node can take.
    liked: the score of each node; None if all nodes are equal.
    """
    if liked is None:
        small = int(fits.max(initial=0)) <= _SHORT  # the usual case; numpy sorts int16 in one pass
        order = np.argsort(-fits.astype(np.int16) if small else -fits, kind="stable")
    else:
        order = np.lexsort((-fits, -liked))
    room = np.cumsum(np.minimum(fits[order], pods))
    full = int(np.searchsorted(room, pods, side="left"))  # the number of nodes that are filled completely
    counts = np.zeros_like(fits)
    counts[order[:full]] = fits[order[:full]]
    rest = pods - int(counts.sum())
    if rest:
        suits = (fits >= rest) & (counts == 0)
        if liked is not None:
            suits &= liked == liked[order[full]]
        counts[int(np.argmin(np.where(suits, fits, _HUGE)))] = rest
    return counts


def _split_quotas(rule: Rule, places: Ints, fits: Ints, pods: int) -> tuple[Ints, Ints]:
    """Return the topology domain of each node, and how many pods each domain gets.

    Nodes outside all domains form a domain of their own, which gets pods first.
    """
    size = int(places.max(initial=-1)) + 1
    places = np.where(places < 0, size, places)
    room = np.bincount(places, fits, size + 1).astype(np.int64)
    free = min(pods, int(room[size]))
    return places, np.append(rule.quotas(room[:size], pods - free), free)


def _pack_by_place(fits: Ints, places: Ints, quotas: Ints, liked: Ints | None) -> Ints:
    """Place each topology domain's number of pods on its best-scored and roomiest nodes.

    fits: how many pods each node can take.
    places: the topology domain of each node.
    quotas: the number of pods of each domain.
    liked: the score of each node; None if all nodes are equal.
    """
    order = np.lexsort((-fits, places) if liked is None else (-fits, -liked, places))
    counts = np.zeros_like(fits)
    counts[order] = np.clip(quotas[places[order]] - _sum_before(fits[order], places[order]), 0, fits[order])
    return counts


def _pack_best_by_place(worth: Floats, fits: Ints, places: Ints, quotas: Ints, liked: Ints | None) -> Ints:
    """Place each topology domain's number of pods one by one, on the best-scored node where the pod is worth most.

    worth: the worth of each further pod on a node, by node and by the pods already there.
    fits: how many pods each node can take.
    places: the topology domain of each node.
    quotas: the number of pods of each domain.
    liked: the score of each node; None if all nodes are equal.
    """
    nodes, turns = np.nonzero(np.arange(worth.shape[1]) < fits[:, None])
    worth = worth[nodes, turns]
    order = np.lexsort((-worth, places[nodes]) if liked is None else (-worth, -liked[nodes], places[nodes]))
    nodes = nodes[order]
    goes = _sum_before(np.ones_like(nodes), places[nodes]) < quotas[places[nodes]]
    return np.bincount(nodes[goes], minlength=len(fits)).astype(np.int64)


def _sum_before(amounts: Ints, places: Ints) -> Ints:
    """Return, for each entry, the sum of the earlier amounts in its domain. Entries of a domain are adjacent."""
    before = np.cumsum(amounts) - amounts
    sums: Ints = before - before[np.searchsorted(places, places, side="left")]
    return sums


def _place_one_by_one(
    around: Around, shape: Shape, fits: Ints, pods: int, extra_use: Ints | None, *, wishes: bool
) -> Filled:
    """Place pods one by one so that the remaining pods keep most choices: in the emptiest domain, on its best node.

    fits: how many pods each node can take.
    extra_use: additional use of the nodes; None for none.
    """
    capacity, counts = around.capacity, np.zeros_like(fits)
    for _ in range(pods):
        now = around.with_placed(shape, counts)
        limits = limits_of(now, shape, wishes=wishes)
        left = fits - counts
        limits.apply_to_next(left)
        nodes = capacity.by_name
        nodes = nodes[left[nodes] > 0]
        if not len(nodes):
            return Filled(counts, exact=False)
        crowd = np.zeros(len(nodes), np.int64)
        for rule in limits.rules:
            if isinstance(rule, Even):
                crowd += rule.counts[rule.places[nodes]]
        liked = score_nodes(now, shape)
        keys = [
            left[nodes]
            if capacity.strategy is Strategy.TIGHT
            else -_compute_worth(now, shape, counts, extra_use)[nodes]
        ]
        keys += [-liked[nodes]] if liked is not None else []
        best = np.arange(len(nodes))
        for key in (crowd, *reversed(keys)):
            least = key[best]
            best = best[least == least.min()]
        counts[nodes[best[0]]] += 1
    return Filled(counts)


def _compute_worth(around: Around, shape: Shape, counts: Ints, extra_use: Ints | None) -> Floats:
    used = around.capacity.sum_use(shape, counts)
    worth: Floats = compute_worths(around.capacity, shape, used if extra_use is None else extra_use + used, 1)[:, 0]
    return worth
