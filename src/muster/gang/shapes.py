"""A shape is everything about a pod that placement looks at: identical pods are one shape with a count."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from muster.api.core import NodeSelectorTerm, Pod, PreferredSchedulingTerm, Toleration, Volume
from muster.api.pods import pod_requests
from muster.api.values.nodeaffinity import preferred_terms, required_terms
from muster.api.values.selectors import SelectorError
from muster.gang.exclusive import Hold, disks_of, holds_of
from muster.gang.terms import NO_TERMS, Pairs, Term, Terms, keys_of, terms_of, watched_labels

# No node has so much of anything (256 TiB of memory), and thousands of such pods still add up in 64 bits.
MOST = 1 << 48

Amounts = tuple[tuple[str, int], ...]


class Shape(Struct, frozen=True):
    """What a pod asks of a node and of the pods around it. Amounts are integers: milli-CPU, and whole units of others.

    node_terms: of which a node has to match one; empty: any will do.
    node_wishes: terms of nodes that are preferred.
    holds: what only one pod of a node can have.
    claims: its persistent volume claims, as `namespace/name`.
    namespace, labels: who it is to the terms of others, as far as they look at it; "" where none looks at all.
    unable: why no node will do, in words; what is asked for is not known here.
    """

    requests: Amounts  # sorted by resource, no zeros; always has "pods": 1
    node_selector: Pairs = ()
    tolerations: tuple[Toleration, ...] = ()
    node_terms: tuple[NodeSelectorTerm, ...] = ()
    node_wishes: tuple[PreferredSchedulingTerm, ...] = ()
    holds: tuple[Hold, ...] = ()
    claims: tuple[str, ...] = ()
    namespace: str = ""
    labels: Pairs = ()
    terms: Terms = NO_TERMS
    unable: str = ""

    @property
    def meets_others(self) -> bool:
        """Whether it matters which pods are around, and not only how much room they leave."""
        return bool(self.holds or self.claims or self.namespace)


class Guest(Struct, frozen=True):
    """A pod on a node, as it concerns others: what it takes, who it is, and whom it keeps away.

    leaving: it is being deleted.
    """

    requests: Amounts
    holds: tuple[Hold, ...] = ()
    claims: tuple[str, ...] = ()
    namespace: str = ""
    labels: Mapping[str, str] = {}
    anti_affinity: tuple[Term, ...] = ()
    leaving: bool = False


def shape_of(pod: Pod, watched: frozenset[str] | None = None) -> Shape:
    """The shape of a pod. watched: the labels that others look at; None: no other looks."""
    meta, spec = pod.metadata, pod.spec
    terms, unable = _terms_of(pod)
    seen = watched if terms is NO_TERMS else (watched or frozenset()) | keys_of(terms.matchers)
    return Shape(
        requests=_requests(pod),
        node_selector=tuple(sorted(spec.node_selector.items())),
        tolerations=tuple(spec.tolerations),
        node_terms=required_terms(spec),
        node_wishes=preferred_terms(spec),
        holds=holds_of(spec),
        claims=claims_of(pod),
        namespace=meta.namespace if seen is not None else "",
        labels=tuple(sorted((key, meta.labels[key]) for key in seen if key in meta.labels)) if seen else (),
        terms=terms,
        unable=unable or _unable(pod),
    )


def shapes_of(pods: Iterable[Pod], watched: frozenset[str] | None = None) -> dict[str, Shape]:
    """The shapes of pods that go together, by UID: each as the terms of the others, and of bound pods, see it."""
    pods = list(pods)
    own = watched_labels(terms for pod in pods if (terms := _terms_of(pod)[0]))
    if own is not None:
        watched = own | (watched or frozenset())
    return {pod.metadata.uid: shape_of(pod, watched) for pod in pods}


def count_shapes(pods: Iterable[Pod], watched: frozenset[str] | None = None) -> Counter[Shape]:
    """How many pods there are of each shape, in the order in which the shapes appear."""
    return Counter(shapes_of(pods, watched).values())


def guest_of(pod: Pod) -> Guest:
    """What a pod will be to others on its node."""
    return Guest(
        requests=_requests(pod),
        holds=holds_of(pod.spec),
        claims=claims_of(pod),
        namespace=pod.metadata.namespace,
        labels=pod.metadata.labels,
        anti_affinity=_terms_of(pod)[0].anti_affinity,
        leaving=pod.metadata.deletion_timestamp is not None,
    )


def guest_like(shape: Shape) -> Guest:
    """What a pod of that shape will be to others, as far as they look."""
    return Guest(
        requests=shape.requests,
        holds=shape.holds,
        claims=shape.claims,
        namespace=shape.namespace,
        labels=dict(shape.labels),
        anti_affinity=shape.terms.anti_affinity,
    )


def claims_of(pod: Pod) -> tuple[str, ...]:
    """The persistent volume claims that a pod mounts, also those that are made for it."""
    if not pod.spec.volumes:
        return ()
    names = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{volume.name}")
    return tuple(sorted({f"{pod.metadata.namespace}/{name}" for name in names}))


def binds(volume: Volume) -> bool:
    """Whether a volume matters to where pods that mount it can be."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None or any(disks_of(volume))


def _requests(pod: Pod) -> Amounts:
    asked = {resource: min(amount, MOST) for resource, amount in pod_requests(pod.spec).items() if amount > 0}
    return tuple(sorted(({"pods": 1} | asked).items()))


def _terms_of(pod: Pod) -> tuple[Terms, str]:
    try:
        return terms_of(pod.spec, pod.metadata.namespace, pod.metadata.labels), ""
    except SelectorError as error:
        return NO_TERMS, f"cannot be matched: {error}"


def _unable(pod: Pod) -> str:
    return "cannot allocate resource claims: they are not known to this scheduler" if pod.spec.resource_claims else ""
