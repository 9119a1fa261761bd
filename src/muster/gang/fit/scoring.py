"""Score nodes by the preferences of pods and by the nodes' use.

Preferences come first: preferred nodes, taints to avoid, and pods to be near. Each kind of preference scores from 0 to
100, and is weighted as in kube-scheduler's plugins. Among nodes of equal score the strategy decides.
"""

from muster.gang import arrays as np
from muster.gang.arrays import Floats, Ints
from muster.gang.fit.around import Around
from muster.gang.nodes.capacity import Capacity, Strategy
from muster.gang.shapes import Shape

# The weights of kube-scheduler's plugins TaintToleration, NodeAffinity and InterPodAffinity.
_TAINTS, _NODES, _PODS = 3, 2, 2


def score_nodes(around: Around, shape: Shape) -> Ints | None:
    """Return each node's preference score for a shape, by node index; None if all nodes are equal.

    The score combines PreferNoSchedule taints, and the shape's preferences for nodes and for pods.
    """
    capacity = around.capacity
    kinds = []
    if (unwelcome := capacity.unwelcome(shape)).any():
        kinds.append((_TAINTS, -unwelcome))
    if shape.node_wishes:
        kinds.append((_NODES, _score_nodes(capacity, shape)))
    if shape.terms.wishes:
        kinds.append((_PODS, _score_pods(around, shape)))
    scores = [weight * _scale_scores(score) for weight, score in kinds if score.any()]
    return np.sum(scores, axis=0, dtype=np.int64) if scores else None


def compute_worths(capacity: Capacity, shape: Shape, extra_use: Ints | None, most: int) -> Floats:
    """Return the worth of the first, second, ... up to `most`-th pod of a shape on each node, by node index.

    The worth of a pod is at most the worth of the earlier pods on its node, so that sorting by worth keeps their order.
    """
    shares = []
    for resource, amount in shape.requests:
        if resource == "pods" and len(shape.requests) > 1:
            continue
        allocatable = np.maximum(capacity.allocatable_of(resource), 1)[:, None]
        used = (capacity.allocatable_of(resource) - capacity.free_of(resource, extra_use))[:, None]
        shares.append((used + amount * np.arange(1, most + 1)) / allocatable)
    full, strategy = np.stack(shares), capacity.strategy
    if strategy is Strategy.BALANCED:
        worth = -full.std(axis=0)
    else:
        worth = full.mean(axis=0) * (1 if strategy is Strategy.MOST else -1)
    running_worth: Floats = np.minimum.accumulate(worth, axis=1)
    return running_worth


def _scale_scores(score: Ints) -> Ints:
    """Return the scores scaled so that the lowest is 0 and the highest is 100; all 0 if they are equal."""
    least, spread = score.min(), score.max() - score.min()
    scaled: Ints = (score - least) * 100 // spread if spread else np.zeros_like(score)
    return scaled


def _score_nodes(capacity: Capacity, shape: Shape) -> Ints:
    scores = np.zeros(len(capacity.names), np.int64)
    for wish in shape.node_wishes:
        scores += wish.weight * capacity.find_matching(wish.preference)
    return scores


def _score_pods(around: Around, shape: Shape) -> Ints:
    scores = np.zeros(len(around.capacity.names), np.int64)
    for wish in shape.terms.wishes:
        places = around.capacity.places(wish.term.topology_key)
        inside = places >= 0
        meant = np.bincount(places[inside], around.count_selected((wish.term,))[inside]).astype(np.int64)
        scores[inside] += wish.weight * meant[places[inside]]
    return scores
