"""Which nodes are better than others, by what pods wish for and by how full the nodes are.

What is wished for goes first: nodes that a pod prefers, taints that it would rather not bear, pods that it likes to be
near. Each kind of wish counts from 0 to 100, with the weights of kube-scheduler's plugins. Among nodes that are as
welcome as each other the strategy decides.
"""

import numpy as np
import numpy.typing as npt

from muster.gang.fit.around import Around
from muster.gang.nodes.capacity import Capacity, Ints, Strategy
from muster.gang.shapes import Shape

Floats = npt.NDArray[np.float64]

# The weights of the plugins TaintToleration, NodeAffinity and InterPodAffinity.
_TAINTS, _NODES, _PODS = 3, 2, 2


def welcome(around: Around, shape: Shape) -> Ints | None:
    """How welcome each node is to a shape, by node index; None if all are as welcome as each other."""
    capacity = around.capacity
    kinds = []
    if (unwelcome := capacity.unwelcome(shape)).any():
        kinds.append((_TAINTS, -unwelcome))
    if shape.node_wishes:
        kinds.append((_NODES, _by_nodes(capacity, shape)))
    if shape.terms.wishes:
        kinds.append((_PODS, _by_pods(around, shape)))
    scores = [weight * _normal(score) for weight, score in kinds if score.any()]
    return np.sum(scores, axis=0, dtype=np.int64) if scores else None


def worths(capacity: Capacity, shape: Shape, taken: Ints | None, most: int) -> Floats:
    """What the first, second, ... pod of a shape is worth on each node, by node index; `most` at most.

    A pod is worth no more than those that have to come before it on its node: so the best of all come in turn.
    """
    shares = []
    for resource, wanted in shape.requests:
        if resource == "pods" and len(shape.requests) > 1:
            continue
        allocatable = np.maximum(capacity.allocatable_of(resource), 1)[:, None]
        used = (capacity.allocatable_of(resource) - capacity.free_of(resource, taken))[:, None]
        shares.append((used + wanted * np.arange(1, most + 1)) / allocatable)
    full, strategy = np.stack(shares), capacity.strategy
    if strategy is Strategy.BALANCED:
        worth = -full.std(axis=0)
    else:
        worth = full.mean(axis=0) * (1 if strategy is Strategy.MOST else -1)
    found: Floats = np.minimum.accumulate(worth, axis=1)
    return found


def _normal(score: Ints) -> Ints:
    """From 0 to 100."""
    least, spread = score.min(), score.max() - score.min()
    found: Ints = (score - least) * 100 // spread if spread else np.zeros_like(score)
    return found


def _by_nodes(capacity: Capacity, shape: Shape) -> Ints:
    found = np.zeros(len(capacity.names), np.int64)
    for wish in shape.node_wishes:
        found += wish.weight * capacity.matching(wish.preference)
    return found


def _by_pods(around: Around, shape: Shape) -> Ints:
    found = np.zeros(len(around.capacity.names), np.int64)
    for wish in shape.terms.wishes:
        places = around.capacity.places(wish.term.topology_key)
        inside = places >= 0
        meant = np.bincount(places[inside], around.meant((wish.term,))[inside]).astype(np.int64)
        found[inside] += wish.weight * meant[places[inside]]
    return found
