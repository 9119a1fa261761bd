"""Track the free amounts of every node, as resource-major integer arrays that each change updates.

Invariants:

- `free = allocatable - the sum over assigned pods`, exactly, in integers.
- A pod is assigned to at most one node.
- A node index is reused only after its node was removed.
- A resource has a row once a node has had it.

Mutable, but pure: no I/O, no clock.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum

from msgspec import Struct

from muster.api.core import Node, NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim, Taint
from muster.api.nodes import is_ready, taints_of
from muster.api.values.nodeaffinity import matches_any
from muster.api.values.quantity import parse_amount
from muster.api.values.taints import count_unwelcome, find_untolerated_taint
from muster.gang import arrays as np
from muster.gang.arrays import Ints, Mask
from muster.gang.nodes.domains import DomainLevel, list_levels
from muster.gang.nodes.guests import Guests
from muster.gang.nodes.volumes import Volumes
from muster.gang.shapes import MOST, Amounts, Guest, Shape

# The maximum number of entries of each cache; a full cache is cleared.
_MASKS_KEPT = 1000


class Strategy(Enum):
    """The strategy by which a gang chooses among nodes of equal preference.

    TIGHT: as few nodes as possible; the last pods share the node that they leave with the least room.
    MOST: the fullest nodes first.
    LEAST: the emptiest nodes first, pod by pod.
    BALANCED: the nodes whose resources are then used in the most equal shares, pod by pod.
    """

    TIGHT = "Tight"
    MOST = "MostAllocated"
    LEAST = "LeastAllocated"
    BALANCED = "BalancedAllocation"


class NodeTraits(Struct, frozen=True):
    """The properties of a node that decide whether a pod may run there at all."""

    name: str
    labels: tuple[tuple[str, str], ...]
    taints: tuple[Taint, ...]
    unschedulable: bool
    ready: bool


class Capacity:
    """The nodes of a cluster and their free amounts."""

    def __init__(self, strategy: Strategy = Strategy.TIGHT) -> None:
        self.strategy = strategy
        self.names: list[str | None] = []  # by index; None for an unused index
        self.traits: list[NodeTraits | None] = []
        self._index: dict[str, int] = {}
        self._vacant: list[int] = []
        self._row: dict[str, int] = {}
        self._retired: set[str] = set()  # resources whose rows may be reused for other resources
        self._allocatable: Ints = np.zeros((0, 0), np.int64)
        self._used: Ints = np.zeros((0, 0), np.int64)
        self.guests = Guests()  # including pods on nodes that are not known (yet)
        self.volumes = Volumes()
        self._by_name: Ints | None = None
        self._rank: Ints = np.zeros(0, np.int64)  # the position of each node in `_by_name`
        self._opennesses: dict[tuple[object, ...], tuple[Mask, Counter[str]]] = {}
        self._known: dict[tuple[object, ...], Ints] = {}
        # For each shape, how many pods fit on each node, and the length of `_changed` when that was computed.
        self._fits: dict[Shape, tuple[int, Ints]] = {}
        self._changed: list[int] = []  # the indexes of nodes whose use has changed, in order of the changes
        self._rooms: dict[Shape, tuple[int, int]] = {}  # for each shape, the version, and how many pods fit in all
        # Increases with each change that could change how many pods fit.
        self.version = 0
        self.node_version = 0  # increases when a node is added or removed
        self._domains: dict[tuple[str, ...], tuple[DomainLevel, ...]] = {}  # by the label keys of a topology

    def __len__(self) -> int:
        return len(self._index)

    def set_node(self, node: Node) -> bool:
        """Add or update a node; return whether the change could help a waiting pod."""
        name = node.metadata.name
        traits = _read_traits(node)
        self._make_rows(node.status.allocatable)
        amounts = {self._row[r]: min(parse_amount(r, q), MOST) for r, q in node.status.allocatable.items()}
        new = name not in self._index
        index = self._add(name) if new else self._index[name]
        column = np.zeros(len(self._row), np.int64)
        for row, value in amounts.items():
            column[row] = value
        grew = bool((column > self._allocatable[:, index]).any())
        self._allocatable[:, index] = column
        self._note_change(index)
        changed = self.traits[index] != traits
        if changed:
            self.traits[index] = traits
            self._forget()
        return new or grew or changed

    def retire(self, resources: Iterable[str]) -> None:
        """Allow the rows of resources that no pod requests any more to be reused once no node has the resource."""
        self._retired.update(self._row.keys() & resources)

    def remove_node(self, name: str) -> None:
        """Remove a node. Pods stay assigned to it, in case it is added again."""
        index = self._index.pop(name, None)
        if index is None:
            return
        self.node_version += 1
        self.names[index] = self.traits[index] = None
        self._by_name = None
        self._vacant.append(index)
        self._allocatable[:, index] = 0
        self._used[:, index] = 0
        self._forget()

    def assign(self, uid: str, node: str, guest: Guest) -> bool:
        """Record that a pod is on a node, possibly after another node; return whether anything changed."""
        known = self.guests.get(uid)
        if known == (node, guest):
            return False
        if known is not None:
            self.release(uid)
        self.guests.add(uid, node, guest)
        if (index := self._index.get(node)) is not None:
            self._add_usage(index, guest.requests, 1)
        return True

    def release(self, uid: str) -> bool:
        """Record that a pod has left its node; return whether the pod was on a node."""
        if self.guests.get(uid) is None:
            return False
        node, guest = self.guests.remove(uid)
        if (index := self._index.get(node)) is not None:
            self._add_usage(index, guest.requests, -1)
        return True

    def assigned(self, uid: str) -> tuple[str, Guest] | None:
        """Return the node of a pod, and the pod's fields that affect other pods; None if the pod has no node."""
        return self.guests.get(uid)

    @property
    def watched(self) -> frozenset[str] | None:
        """The labels by which pods on nodes select waiting pods; None if no pod on a node selects others."""
        return self.guests.watched

    def index_of(self, node: str) -> int | None:
        """Return the index of a node by its name; None if the node does not exist."""
        return self._index.get(node)

    def held(self, uids: Iterable[str]) -> Iterator[tuple[int, Amounts]]:
        """Yield the node index and the requests of each of these pods whose node exists."""
        assigned, index_of = self.guests.get, self._index.get
        for uid in uids:
            assignment = assigned(uid)
            if assignment is not None and (index := index_of(assignment[0])) is not None:
                yield index, assignment[1].requests

    def count_fitting(self, shape: Shape, extra_use: Ints | None = None) -> Ints:
        """Return how many pods of a shape each node can take, by node index.

        extra_use: additional use of the nodes; None for none.
        """
        if extra_use is not None:
            return self._count_fitting(shape, self._allocatable - self._used - extra_use, self.eligible(shape))
        seen, fits = self._fits.get(shape, (-1, None))
        changed = self._changed[seen:] if fits is not None else ()
        if fits is None or len(changed) * 8 > len(fits):
            fits = self._count_fitting(shape, self.free(), self.eligible(shape))
        elif changed:
            nodes = np.array(changed, np.int64)
            fits[nodes] = self._count_fitting(
                shape, self._allocatable[:, nodes] - self._used[:, nodes], self.eligible(shape)[nodes]
            )
        if len(self._fits) >= _MASKS_KEPT:
            self._fits.clear()
        self._fits[shape] = len(self._changed), fits
        return fits.copy()

    def find_known_room(self, shape: Shape) -> int | None:
        """Return how many pods of a shape fit on all nodes, as recorded by `note_room`.

        Returns None if nothing is recorded, or if anything has changed since.
        """
        version, room = self._rooms.get(shape, (-1, 0))
        return room if version == self.version else None

    def note_room(self, shape: Shape, room: int) -> None:
        """Cache how many pods of a shape fit on all nodes, until anything changes."""
        if len(self._rooms) >= _MASKS_KEPT:
            self._rooms.clear()
        self._rooms[shape] = self.version, room

    def _count_fitting(self, shape: Shape, free: Ints, eligible: Mask) -> Ints:
        """Return how many pods of a shape fit into the free amounts of each node.

        free: the free amounts by resource row and node.
        eligible: whether each of these nodes may run the pod at all.
        """
        fits: Ints | None = None
        for resource, requested in shape.requests:
            row = self._row.get(resource)
            if row is None:
                return np.zeros(len(eligible), np.int64)
            room = free[row] // requested if requested > 1 else free[row]
            fits = room if fits is None else np.minimum(fits, room)
        assert fits is not None, "every shape asks for one of the pods that a node takes"
        counts: Ints = np.maximum(fits, 0) * eligible
        return counts

    def free(self) -> Ints:
        """Return the free amounts by resource row and node index; negative where a node has shrunk below its use."""
        return self._allocatable - self._used

    def rows(self) -> Mapping[str, int]:
        """Return the row of each resource that a node has or had. The free amount of any other resource is 0."""
        return self._row

    def allocatable_of(self, resource: str) -> Ints:
        """Return the allocatable amounts of one resource, by node index."""
        row = self._row.get(resource)
        return np.zeros(len(self.names), np.int64) if row is None else self._allocatable[row]

    def used_of(self, resource: str) -> Ints:
        """Return the amounts of one resource that the pods on the nodes use, by node index."""
        row = self._row.get(resource)
        return np.zeros(len(self.names), np.int64) if row is None else self._used[row]

    def free_of(self, resource: str, extra_use: Ints | None = None) -> Ints:
        """Return the free amounts of one resource minus `extra_use`, by node index."""
        row = self._row.get(resource)
        if row is None:
            return np.zeros(len(self.names), np.int64)
        free: Ints = self._allocatable[row] - self._used[row]
        return free if extra_use is None else free - extra_use[row]

    def eligible(self, shape: Shape) -> Mask:
        """Return the nodes that selectors, taints, cordons and volumes open to a shape, whatever pods run there."""
        return self._find_openness(shape)[0]

    def count_closed(self, shape: Shape) -> Counter[str]:
        """Return how many nodes are closed to a shape, by reason."""
        return self._find_openness(shape)[1]

    def unable(self, shape: Shape) -> str:
        """Return the reason why no node at all can run a pod of the shape; "" if some node may."""
        return shape.unable or next(filter(None, map(self.volumes.explain_missing, shape.claims)), "")

    def find_selected(self, shape: Shape) -> Mask:
        """Return the nodes that match the shape's selector and node affinity."""
        key = "selected", shape.node_selector, shape.node_terms
        return self._compute_numbers(key, lambda traits: _is_selected(traits, shape)) > 0

    def tolerated(self, shape: Shape) -> Mask:
        """Return the nodes whose NoSchedule and NoExecute taints the shape tolerates."""
        key = "tolerated", shape.tolerations
        return (
            self._compute_numbers(key, lambda traits: find_untolerated_taint(traits.taints, shape.tolerations) is None)
            > 0
        )

    def unwelcome(self, shape: Shape) -> Ints:
        """Return how many PreferNoSchedule taints the shape does not tolerate, by node index."""
        key = "unwelcome", shape.tolerations
        return self._compute_numbers(key, lambda traits: count_unwelcome(traits.taints, shape.tolerations))

    def find_matching(self, term: NodeSelectorTerm) -> Mask:
        """Return the nodes that match a node selector term."""
        return (
            self._compute_numbers(("term", term), lambda traits: matches_any((term,), traits.name, dict(traits.labels)))
            > 0
        )

    @property
    def by_name(self) -> Ints:
        """The node indexes, sorted by node name, so that decisions do not depend on when nodes were added."""
        if self._by_name is None:
            self._by_name = np.array(
                sorted(range(len(self.names)), key=lambda index: self.names[index] or ""), np.int64
            )
            self._rank = np.argsort(self._by_name)
        return self._by_name

    def in_order(self, nodes: Ints) -> Ints:
        """Return these node indexes, sorted by node name."""
        by_name = self.by_name
        if len(nodes) * 4 > len(by_name):
            chosen = np.zeros(len(by_name), np.bool_)
            chosen[nodes] = True
            return by_name[chosen[by_name]]
        ordered: Ints = nodes[np.argsort(self._rank[nodes])]
        return ordered

    def domains(self, labels: tuple[str, ...]) -> tuple[DomainLevel, ...]:
        """Return the levels of the topology of these labels, widest first; cached until a node changes."""
        cached = self._domains.get(labels)
        if cached is None:
            if len(self._domains) >= _MASKS_KEPT:
                self._domains.clear()
            nodes = [None if traits is None else dict(traits.labels) for traits in self.traits]
            cached = self._domains[labels] = list_levels(nodes, labels)
        return cached

    def places(self, *keys: str) -> Ints:
        """Return the number of each node's topology domain, by node index.

        Nodes with equal values of all these labels have the same number. A node without one of the labels has a
        negative number.
        """
        return self.domains(keys)[-1].of_node

    def in_places(self, key: str, nodes: Mask) -> Mask:
        """Return all nodes in the same topology domain, for a label key, as one of these nodes."""
        places = self.places(key)
        inside = places[nodes]
        chosen = np.zeros(int(places.max(initial=-1)) + 2, np.bool_)  # the last entry is for nodes in no domain
        chosen[inside[inside >= 0]] = True
        return chosen[places]

    def counts(self, numbers: Mapping[str, int]) -> Ints:
        """Return an array by node index of numbers that are given by node name; 0 for other nodes.

        Unknown names are ignored.
        """
        counts = np.zeros(len(self.names), np.int64)
        for name, number in numbers.items():
            if (index := self._index.get(name)) is not None:
                counts[index] = number
        return counts

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Record the labels of a namespace, or None if it was deleted; return whether they changed."""
        before = self.guests.namespaces.pop(name, {})
        if labels is not None:
            self.guests.namespaces[name] = labels
        return before != (labels or {})

    def set_claim(self, key: str, claim: PersistentVolumeClaim | None) -> bool:
        """Record a PersistentVolumeClaim by `namespace/name`, or None if it was deleted.

        Return whether the change may affect a pod.
        """
        if changed := self.volumes.set_claim(key, claim):
            self._forget_openness()
        return changed

    def set_volume(self, name: str, volume: PersistentVolume | None) -> bool:
        """Record a PersistentVolume, or None if it was deleted; return whether the change may affect a pod."""
        if changed := self.volumes.set_volume(name, volume):
            self._forget_openness()
        return changed

    def _forget(self) -> None:
        """Clear the cached results about nodes."""
        self._forget_openness()
        self._known.clear()
        self._domains.clear()

    def _forget_openness(self) -> None:
        self.version += 1
        self._opennesses.clear()
        self._fits.clear()

    def _find_openness(self, shape: Shape) -> tuple[Mask, Counter[str]]:
        key = (shape.node_selector, shape.tolerations, shape.node_terms, shape.claims, shape.unable)
        cached = self._opennesses.get(key)
        if cached is None:
            if len(self._opennesses) >= _MASKS_KEPT:
                self._opennesses.clear()
            if self.unable(shape):
                cached = np.zeros(len(self.names), np.bool_), Counter()
            else:
                obstacles = [self._find_obstacle(traits, shape) for traits in self.traits]
                reasons = Counter(
                    reason for reason, name in zip(obstacles, self.names, strict=True) if reason and name is not None
                )
                cached = np.array([reason is None for reason in obstacles], dtype=np.bool_), reasons
            self._opennesses[key] = cached
        return cached

    def _find_obstacle(self, traits: NodeTraits | None, shape: Shape) -> str | None:
        if (reason := find_obstacle(traits, shape)) is not None or traits is None:
            return reason
        labels = dict(traits.labels) if shape.claims else {}
        return next(filter(None, (self.volumes.obstacle(claim, labels) for claim in shape.claims)), None)

    def _compute_numbers(self, key: tuple[object, ...], number: Callable[[NodeTraits], int]) -> Ints:
        """Return a number for each node, 0 for an unused index; cached until a node changes."""
        numbers = self._known.get(key)
        if numbers is None:
            if len(self._known) >= _MASKS_KEPT:
                self._known.clear()
            numbers = np.array([0 if traits is None else number(traits) for traits in self.traits], np.int64)
            self._known[key] = numbers
        return numbers

    def sum_use(self, shape: Shape, counts: Ints) -> Ints:
        """Return the use of `counts` pods of a shape on each node, by resource row and node index.

        The result has the form of `extra_use` in `count_fitting`.
        """
        use = np.zeros_like(self._used)
        for resource, requested in shape.requests:
            if (row := self._row.get(resource)) is not None:
                use[row] = counts * requested
        return use

    def _add(self, name: str) -> int:
        if not self._vacant:
            size, grow = len(self.names), max(16, len(self.names) // 4)
            self.names += [None] * grow
            self.traits += [None] * grow
            self._allocatable = np.pad(self._allocatable, ((0, 0), (0, grow)))
            self._used = np.pad(self._used, ((0, 0), (0, grow)))
            self._vacant = list(range(size + grow - 1, size - 1, -1))  # `pop` removes the lowest index first
        self._by_name = None
        self.node_version += 1
        index = self._vacant.pop()
        self.names[index] = name
        self._index[name] = index
        for uid in self.guests.on(name):
            held = self.guests.get(uid)
            assert held is not None
            self._add_usage(index, held[1].requests, 1)
        return index

    def _make_rows(self, resources: Iterable[str]) -> None:
        """Create rows for resources that a node has.

        Resources that only pods request get no rows, because pods can request any name.
        """
        resources = frozenset(resources)
        self._retired -= resources
        unknown = sorted(resources - self._row.keys())
        if not unknown:
            return
        free = [self._row.pop(resource) for resource in self._take_idle(len(unknown))]
        more = len(unknown) - len(free)
        rows = (*free, *range(len(self._allocatable), len(self._allocatable) + more))
        new = dict(zip(unknown, rows, strict=True))
        self._row |= new
        self._allocatable = np.pad(self._allocatable, ((0, more), (0, 0)))
        self._used = np.pad(self._used, ((0, more), (0, 0)))
        for index, requests in self.held(uid for uid, _ in self.guests.items()):
            for resource, value in requests:
                if (row := new.get(resource)) is not None:
                    self._used[row, index] += value

    def _take_idle(self, most: int) -> list[str]:
        """Remove and return up to `most` retired resources that no node has and no pod uses."""
        idle = [
            resource
            for resource in sorted(self._retired)
            if not self._allocatable[self._row[resource]].any() and not self._used[self._row[resource]].any()
        ][:most]
        self._retired.difference_update(idle)
        return idle

    def _note_change(self, index: int) -> None:
        self.version += 1
        if len(self._changed) > len(self.names):  # from here on, recomputing everything is cheaper
            self._fits.clear()
            self._changed.clear()
        self._changed.append(index)

    def _add_usage(self, index: int, requests: Amounts, sign: int) -> None:
        self._note_change(index)
        for resource, value in requests:
            row = self._row.get(resource)
            if row is None:
                continue
            self._used[row, index] += sign * value
            assert self._used[row, index] >= 0, f"{self.names[index]} uses less than nothing of {resource}"


def _read_traits(node: Node) -> NodeTraits:
    ready = is_ready(node)
    labels = tuple(sorted(node.metadata.labels.items()))
    return NodeTraits(node.metadata.name, labels, taints_of(node), bool(node.spec.unschedulable), ready)


def find_obstacle(traits: NodeTraits | None, shape: Shape) -> str | None:
    """Return why a node is closed to a shape whatever is free there, in kube-scheduler's words.

    Returns None if the node is open.
    """
    if traits is None:
        return "node(s) were gone"
    if not traits.ready:
        return "node(s) were not ready"
    if traits.unschedulable and not _tolerates_cordon(shape):
        return "node(s) were unschedulable"
    if not _is_selected(traits, shape):
        return "node(s) didn't match Pod's node affinity/selector"
    if (taint := find_untolerated_taint(traits.taints, shape.tolerations)) is not None:
        return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return None


def _is_selected(traits: NodeTraits, shape: Shape) -> bool:
    labels = dict(traits.labels)
    selected = all(labels.get(key) == value for key, value in shape.node_selector)
    return selected and (not shape.node_terms or matches_any(shape.node_terms, traits.name, labels))


def _tolerates_cordon(shape: Shape) -> bool:
    cordon = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    return find_untolerated_taint([cordon], shape.tolerations) is None
