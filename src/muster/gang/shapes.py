"""A shape is everything about a pod that placement looks at: identical pods are one shape with a count."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from muster.api.core import NodeSelectorTerm, Pod, Toleration
from muster.api.nodeaffinity import required_terms
from muster.api.pods import pod_requests

# No node has so much of anything (256 TiB of memory), and thousands of such pods still add up in 64 bits.
MOST = 1 << 48


class Shape(Struct, frozen=True):
    """What a pod asks of a node. Amounts are integers: milli-CPU, and whole units of everything else."""

    requests: tuple[tuple[str, int], ...]  # sorted by resource, no zeros; always has "pods": 1
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    node_terms: tuple[NodeSelectorTerm, ...] = ()  # of which a node has to match one; empty: any will do


def shape_of(pod: Pod) -> Shape:
    """The shape of a pod."""
    asked = {resource: min(amount, MOST) for resource, amount in pod_requests(pod.spec).items() if amount > 0}
    requests = {"pods": 1} | asked
    return Shape(
        requests=tuple(sorted(requests.items())),
        node_selector=tuple(sorted(pod.spec.node_selector.items())),
        tolerations=tuple(pod.spec.tolerations),
        node_terms=required_terms(pod.spec),
    )


def count_shapes(pods: Iterable[Pod]) -> Counter[Shape]:
    """How many pods there are of each shape, in the order in which the shapes appear."""
    return Counter(shape_of(pod) for pod in pods)
