"""Index the pods on the nodes by the fields that rules of other pods read.

The index is updated pod by pod and never scanned as a whole. Results are by node name, because a pod may be added
before its node.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from muster.api.values.selectors import NOTHING, LabelMatcher
from muster.gang.exclusive import Hold
from muster.gang.shapes import Guest
from muster.gang.terms import Labels, Spread, Term, keys_of

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)


class Guests:
    """The pods that are on nodes, by UID."""

    def __init__(self) -> None:
        self.namespaces: dict[str, Labels] = {}  # the labels of each namespace
        self._known: dict[str, tuple[str, Guest]] = {}
        self._on_node: defaultdict[str, set[str]] = defaultdict(set)
        self._holding: defaultdict[tuple[str, ...], Counter[tuple[str, Hold]]] = defaultdict(Counter)
        self._claiming: Counter[str] = Counter()
        self._repelling: defaultdict[Term, Counter[str]] = defaultdict(Counter)
        self._watched: frozenset[str] | None = None
        # Indexes by namespace, and by namespace, label key and value; built when a term first needs them.
        self._in_namespace: defaultdict[str, set[str]] | None = None
        self._labelled: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, uid: str) -> tuple[str, Guest] | None:
        """Return the name of a pod's node, and the pod's fields that affect other pods; None if the pod is unknown."""
        return self._known.get(uid)

    def items(self) -> Iterable[tuple[str, tuple[str, Guest]]]:
        """Return all pods by UID, each with its node's name and the pod's fields that affect other pods."""
        return self._known.items()

    def on(self, node: str) -> Collection[str]:
        """Return the UIDs of the pods on a node."""
        return self._on_node.get(node, ())

    def add(self, uid: str, node: str, guest: Guest) -> None:
        """Record a pod on a node. The pod must not be recorded yet."""
        self._known[uid] = node, guest
        self._on_node[node].add(uid)
        for hold in guest.holds:
            self._holding[hold.what][node, hold] += 1
        for claim in guest.claims:
            self._claiming[claim] += 1
        for term in guest.anti_affinity:
            if term not in self._repelling:
                self._watched = None
            self._repelling[term][node] += 1
        if self._in_namespace is not None:
            self._index_guest(uid, guest)

    def remove(self, uid: str) -> tuple[str, Guest]:
        """Remove a recorded pod; return the name of its node, and the pod's fields that affect other pods."""
        node, guest = self._known.pop(uid)
        _discard(self._on_node, node, uid)
        for hold in guest.holds:
            _subtract(self._holding, hold.what, (node, hold))
        for claim in guest.claims:
            self._claiming[claim] -= 1
            if not self._claiming[claim]:
                del self._claiming[claim]
        for term in guest.anti_affinity:
            _subtract(self._repelling, term, node)
            if term not in self._repelling:
                self._watched = None
        if self._in_namespace is not None:
            _discard(self._in_namespace, guest.namespace, uid)
            for key, value in guest.labels.items():
                _discard(self._labelled, (guest.namespace, key, value), uid)
        return node, guest

    @contextmanager
    def without(self, uids: Iterable[str]) -> Iterator[None]:
        """Leave these pods out until the end of the `with` block."""
        removed = [(uid, *self.remove(uid)) for uid in uids if uid in self._known]
        try:
            yield
        finally:
            for uid, node, guest in removed:
                self.add(uid, node, guest)

    @property
    def watched(self) -> frozenset[str] | None:
        """The labels by which the anti-affinity of these pods selects other pods; None if there is none."""
        if self._watched is None and self._repelling:
            self._watched = keys_of(term.matcher for term in self._repelling)
        return self._watched

    def holders(self, hold: Hold) -> set[str]:
        """Return the names of the nodes that have a pod whose port or disk conflicts with this one."""
        return {node for node, other in self._holding.get(hold.what, ()) if hold.conflicts(other)}

    def claimants(self, claim: str) -> int:
        """Return how many pods use a PersistentVolumeClaim (`namespace/name`)."""
        return self._claiming[claim]

    def yield_repelling(self, namespace: str, labels: Labels) -> Iterator[tuple[str, Collection[str]]]:
        """Yield the topology key and the nodes of each anti-affinity term that excludes a pod with these labels."""
        theirs = self.namespaces.get(namespace, {})
        for term, nodes in self._repelling.items():
            if term.matches(namespace, labels, theirs):
                yield term.topology_key, nodes

    def count_selected(self, terms: Collection[Term]) -> Counter[str]:
        """Return how many pods are selected by all of these terms, by node."""
        first, *others = terms
        counts: Counter[str] = Counter()
        for uid in self._list_candidates(self._list_namespaces(first), first.matcher):
            node, guest = self._known[uid]
            theirs = self.namespaces.get(guest.namespace, {})
            if all(term.matches(guest.namespace, guest.labels, theirs) for term in (first, *others)):
                counts[node] += 1
        return counts

    def count_matching(self, spread: Spread, namespace: str) -> Counter[str]:
        """Return how many pods a spread constraint counts, by node. Pods that are being deleted do not count."""
        counts: Counter[str] = Counter()
        for uid in self._list_candidates((namespace,), spread.matcher):
            node, guest = self._known[uid]
            if not guest.leaving and spread.counts(namespace, guest.namespace, guest.labels):
                counts[node] += 1
        return counts

    def _list_namespaces(self, term: Term) -> Iterable[str]:
        if term.elsewhere == NOTHING:
            return term.namespaces
        elsewhere = (name for name in self._ensure_filed() if term.elsewhere.matches(self.namespaces.get(name, {})))
        return {*term.namespaces, *elsewhere}

    def _list_candidates(self, namespaces: Iterable[str], matcher: LabelMatcher) -> Iterator[str]:
        """Yield the pods that may match, from the index of the most selective label."""
        in_namespace = self._ensure_filed()
        for namespace in namespaces:
            best: Collection[str] = in_namespace.get(namespace, ())
            for requirement in matcher.requirements:
                if (value := requirement.only) is not None:
                    best = min(best, self._labelled.get((namespace, requirement.key, value), ()), key=len)
            yield from best

    def _ensure_filed(self) -> Mapping[str, Collection[str]]:
        if self._in_namespace is None:
            self._in_namespace = defaultdict(set)
            for uid, (_, guest) in self._known.items():
                self._index_guest(uid, guest)
        return self._in_namespace

    def _index_guest(self, uid: str, guest: Guest) -> None:
        assert self._in_namespace is not None
        self._in_namespace[guest.namespace].add(uid)
        for key, value in guest.labels.items():
            self._labelled[guest.namespace, key, value].add(uid)


def _discard(index: defaultdict[K, set[str]], key: K, uid: str) -> None:
    index[key].discard(uid)
    if not index[key]:
        del index[key]


def _subtract(index: defaultdict[K, Counter[V]], key: K, value: V) -> None:
    index[key][value] -= 1
    if not index[key][value]:
        del index[key][value]
    if not index[key]:
        del index[key]
