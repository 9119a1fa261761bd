"""Reduce pods to shapes: everything that placement reads from a pod. Identical pods are one shape with a count."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from muster.api.core import NodeSelectorTerm, Pod, PreferredSchedulingTerm, Toleration, Volume
from muster.api.pods import pod_requests
from muster.api.values.nodeaffinity import list_preferred_terms, list_required_terms
from muster.api.values.selectors import SelectorError
from muster.gang.exclusive import Hold, disks_of, holds_of
from muster.gang.terms import NO_TERMS, Pairs, PodTerms, Term, keys_of, terms_of, watched_labels

_UNKNOWN = "resource claims are not supported here"

# An upper bound. No node has this amount (256 TiB of memory), and the sum over thousands of pods still fits in 64 bits.
MOST = 1 << 48

Amounts = tuple[tuple[str, int], ...]


class DeviceAsk(Struct, frozen=True):
    """The requests of a pod's ResourceClaims: amounts by resource, or the reason why no node fits.

    The reason is "" if some node may fit.
    """

    requests: Amounts = ()
    unable: str = ""


_NO_DEVICES = DeviceAsk()

# Returns the requests of a pod's ResourceClaims.
Asking = Callable[[Pod], DeviceAsk]


class Shape(Struct, frozen=True, cache_hash=True):
    """Everything about a pod that decides where it may be placed. Equal pods have the same shape.

    Amounts are integers: millicores of CPU, and whole units of other resources.

    node_terms: node selector terms, one of which a node has to match; empty if every node matches.
    node_wishes: preferred node selector terms.
    holds: the ports and disks that only one pod per node can use.
    claims: the PersistentVolumeClaims, as `namespace/name`.
    namespace, labels: the part of the pod's identity that rules of other pods select by; empty if no rule does.
    unable: the reason why no node fits, as a sentence, if the pod's requirements are not supported; else "".
    """

    requests: Amounts  # sorted by resource, without zeros; always includes "pods": 1
    node_selector: Pairs = ()
    tolerations: tuple[Toleration, ...] = ()
    node_terms: tuple[NodeSelectorTerm, ...] = ()
    node_wishes: tuple[PreferredSchedulingTerm, ...] = ()
    holds: tuple[Hold, ...] = ()
    claims: tuple[str, ...] = ()
    namespace: str = ""
    labels: Pairs = ()
    terms: PodTerms = NO_TERMS
    unable: str = ""

    @property
    def meets_others(self) -> bool:
        """Whether rules about other pods apply to the shape, so that more than free room matters."""
        return bool(self.holds or self.claims or self.namespace)


class Guest(Struct, frozen=True):
    """A pod on a node, with the fields that affect other pods: its use, its identity, and its anti-affinity.

    leaving: whether the pod is being deleted.
    """

    requests: Amounts
    holds: tuple[Hold, ...] = ()
    claims: tuple[str, ...] = ()
    namespace: str = ""
    labels: Mapping[str, str] = {}
    anti_affinity: tuple[Term, ...] = ()
    leaving: bool = False


def no_claims_known(pod: Pod) -> DeviceAsk:
    """Return that no node can run a pod with ResourceClaims, for callers that know nothing about devices."""
    return DeviceAsk(unable=_UNKNOWN) if pod.spec.resource_claims else _NO_DEVICES


def shape_of(pod: Pod, watched: frozenset[str] | None = None, asking: Asking = no_claims_known) -> Shape:
    """Return the shape of a pod.

    watched: the label keys that rules of other pods select by; None if there are no such rules.
    asking: returns the requests of the pod's ResourceClaims.
    """
    meta, spec = pod.metadata, pod.spec
    devices = asking(pod) if spec.resource_claims else _NO_DEVICES
    terms, unable = _read_terms(pod)
    selected_labels = watched if terms is NO_TERMS else (watched or frozenset()) | keys_of(terms.matchers)
    return Shape(
        requests=_add_devices(_read_requests(pod), devices.requests),
        node_selector=tuple(sorted(spec.node_selector.items())),
        tolerations=tuple(spec.tolerations),
        node_terms=list_required_terms(spec),
        node_wishes=list_preferred_terms(spec),
        holds=holds_of(spec),
        claims=claims_of(pod),
        namespace=meta.namespace if selected_labels is not None else "",
        labels=tuple(sorted((key, meta.labels[key]) for key in selected_labels if key in meta.labels))
        if selected_labels
        else (),
        terms=terms,
        unable=unable or devices.unable,
    )


def shapes_of(
    pods: Iterable[Pod], watched: frozenset[str] | None = None, asking: Asking = no_claims_known
) -> dict[str, Shape]:
    """Return the shapes of pods that are placed together, by UID.

    Each shape includes the labels that rules of the other pods and of bound pods select by.
    """
    pods = list(pods)
    own = watched_labels(terms for pod in pods if (terms := _read_terms(pod)[0]))
    if own is not None:
        watched = own | (watched or frozenset())
    return {pod.metadata.uid: shape_of(pod, watched, asking) for pod in pods}


def count_shapes(
    pods: Iterable[Pod], watched: frozenset[str] | None = None, asking: Asking = no_claims_known
) -> Counter[Shape]:
    """Return how many of the pods have each shape, in the order of the shapes' first pods.

    watched: the label keys that rules of other pods select by; None if there are no such rules.
    """
    return Counter(shapes_of(pods, watched, asking).values())


def guest_of(pod: Pod, devices: Amounts = ()) -> Guest:
    """Return the fields of a pod that affect other pods.

    devices: the amounts that its ResourceClaims hold on its node.
    """
    return Guest(
        requests=_add_devices(_read_requests(pod), devices),
        holds=holds_of(pod.spec),
        claims=claims_of(pod),
        namespace=pod.metadata.namespace,
        labels=pod.metadata.labels,
        anti_affinity=_read_terms(pod)[0].anti_affinity,
        leaving=pod.metadata.deletion_timestamp is not None,
    )


def guest_like(shape: Shape) -> Guest:
    """Return the fields of a pod of this shape that affect other pods."""
    return Guest(
        requests=shape.requests,
        holds=shape.holds,
        claims=shape.claims,
        namespace=shape.namespace,
        labels=dict(shape.labels),
        anti_affinity=shape.terms.anti_affinity,
    )


def claims_of(pod: Pod) -> tuple[str, ...]:
    """Return the PersistentVolumeClaims that a pod mounts, including claims that are created for the pod."""
    if not pod.spec.volumes:
        return ()
    names = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{volume.name}")
    return tuple(sorted({f"{pod.metadata.namespace}/{name}" for name in names}))


def restricts_nodes(volume: Volume) -> bool:
    """Return whether a volume restricts the nodes of a pod that mounts it."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None or any(disks_of(volume))


def _read_requests(pod: Pod) -> Amounts:
    amounts = {resource: min(amount, MOST) for resource, amount in pod_requests(pod.spec).items() if amount > 0}
    return tuple(sorted(({"pods": 1} | amounts).items()))


def _read_terms(pod: Pod) -> tuple[PodTerms, str]:
    try:
        return terms_of(pod.spec, pod.metadata.namespace, pod.metadata.labels), ""
    except SelectorError as error:
        return NO_TERMS, f"cannot be matched: {error}"


def _add_devices(requests: Amounts, devices: Amounts) -> Amounts:
    return tuple(sorted((dict(requests) | dict(devices)).items())) if devices else requests
