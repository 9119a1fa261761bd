"""Record the capacity of nodes for workloads with a topology, and how much of it those workloads use.

Nodes that are ready and not cordoned count, minus the pods on them that belong to no such workload. A workload uses the
domains of its assignment, whether or not its pods run yet. Domains that are single nodes are shared by all flavors;
other domains are counted for each flavor.

A ledger is mutable and has one owner. `take` followed by `give` restores the old state.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial

from msgspec import Struct

from muster.api.core import Node, Toleration
from muster.api.nodes import HOSTNAME_LABEL
from muster.api.values.taints import find_untolerated_taint
from muster.gang import arrays as np
from muster.gang.arrays import Ints, Mask
from muster.gang.nodes.capacity import Capacity
from muster.gang.nodes.domains import DomainLevel, list_levels
from muster.gang.shapes import MOST, Amounts, Guest, Shape
from muster.queueing.model import FlavorSpec, Places

_BEARS_ALL = (Toleration(operator="Exists"),)

# The key of a single node is "" and its host name; the key of a domain is a flavor and the domain's values.
_Key = tuple[str, tuple[str, ...]]


class FlavorDomains(Struct, frozen=True, eq=False):
    """The nodes of a flavor, divided by the levels of its Topology.

    levels: the domains of each level, the widest level first.
    inside: whether each node counts for the flavor, by node index: it is ready, not cordoned, and has the flavor's
    labels and a label for each level.
    by_node: whether the lowest domains are single nodes.
    """

    levels: tuple[DomainLevel, ...]
    inside: Mask
    by_node: bool


class FlavorRoom(Struct, frozen=True, eq=False):
    """The free capacity of a flavor, in pods of one shape for each lowest domain, and why other nodes have none.

    nodes: the number of nodes.
    excluded: a function that counts the nodes without room, by reason; valid until a change of the ledger.
    """

    pods: Ints
    nodes: int
    excluded: Callable[[], Mapping[str, int]]


class CapacityLedger:
    """The nodes of flavors with a Topology, and the capacity that workloads and other pods use on them.

    in_use: whether any flavor has a topology; if not, domains are not searched for.
    version: a number that changes whenever a result may change.
    """

    def __init__(self) -> None:
        self.in_use = False
        self.version = 0
        self._taken: dict[_Key, dict[str, int]] = {}
        self._fields: dict[str, tuple[FlavorSpec, FlavorDomains]] = {}
        self._hosts: dict[str, int] | None = None  # the node index of each host name
        self._of_nodes: Ints | None = None  # used on nodes, in the form of `extra_use` in `Capacity.count_fitting`

    # Nodes, and pods without a topology assignment.

    @cached_property
    def capacity(self) -> Capacity:
        """The capacity of the nodes.

        It is created at the first use, because it needs numpy, and most clusters have no Topology.
        """
        return Capacity()

    def set_node(self, node: Node) -> bool:
        """Add or update a node; return whether that could let a waiting workload fit."""
        helps = self.capacity.set_node(node)
        if helps:
            self._invalidate()
        return helps

    def remove_node(self, name: str) -> None:
        """Remove a node. The amounts that workloads use on it stay recorded."""
        self.capacity.remove_node(name)
        self._invalidate()

    def occupy(self, uid: str, node: str, requests: Amounts) -> None:
        """Record a pod on a node. Does nothing if the same pod is already recorded with the same requests.

        The caller leaves out pods that a workload's topology assignment counts.

        uid: the UID of the pod.
        """
        if self.capacity.assigned(uid) == (node, Guest(requests)):
            return
        self.version += 1
        self.capacity.assign(uid, node, Guest(requests))

    def leave(self, uid: str) -> bool:
        """Remove a pod that `occupy` recorded; return whether it was recorded."""
        has_left = self.capacity.release(uid)
        self.version += has_left
        return has_left

    # Domains that workloads use.

    def take(self, places: Iterable[Places], sign: int = 1) -> None:
        """Count the capacity of a workload's topology domains as used; with sign -1, as free again."""
        for each in places:
            self.version += sign * hash(each)
            for key, count in _list_keys(each):
                amounts_taken = self._taken.setdefault(key, {})
                amounts = tuple((resource, sign * min(count * amount, MOST)) for resource, amount in each.requests)
                for resource, amount in amounts:
                    amounts_taken[resource] = amounts_taken.get(resource, 0) + amount
                if not any(amounts_taken.values()):
                    del self._taken[key]
                self._count_on_node(key, amounts)

    def give(self, places: Iterable[Places]) -> None:
        """Count the capacity of a workload's topology domains as free again."""
        self.take(places, -1)

    @contextmanager
    def assume(self, *, more: Iterable[Places] = (), less: Iterable[Places] = ()) -> Iterator[None]:
        """Count the capacity of `more` as used, and that of `less` as free, until the end of the `with` block."""
        taken_places, given_places = tuple(more), tuple(less)
        self.give(given_places)
        self.take(taken_places)
        try:
            yield
        finally:
            self.give(taken_places)
            self.take(given_places)

    def make_empty(self) -> "CapacityLedger":
        """Return a ledger of the same nodes on which no workload uses any capacity."""
        empty = CapacityLedger()
        empty.capacity, empty._fields = self.capacity, self._fields
        return empty

    # Free capacity.

    def field(self, flavor: FlavorSpec) -> FlavorDomains:
        """Return the nodes of a flavor and their levels, cached until a node or the flavor changes."""
        entry = self._fields.get(flavor.name)
        if entry is None or entry[0] is not flavor:
            entry = self._fields[flavor.name] = flavor, self._make_field(flavor)
        return entry[1]

    def room(self, flavor: FlavorSpec, shape: Shape, beside: Shape | None = None) -> FlavorRoom:
        """Return how many pods of a shape fit in each lowest domain of a flavor.

        beside: the shape of another pod that must also fit in the domain. A domain without room for that pod counts -1.
        """
        field = self.field(flavor)
        if field.by_node:
            return self._count_room_of_nodes(field, shape, beside)
        return self._count_room_of_domains(flavor, field, shape, beside)

    def holds(self, flavors: Mapping[str, FlavorSpec], places: Iterable[Places]) -> bool:
        """Return whether the nodes have room for the pods of all of these domains, in addition to the recorded ones."""
        held: list[Places] = []
        try:
            for each in places:
                flavor = next(flavors[name] for name in each.flavors if name in flavors and flavors[name].topology)
                leaves = self.field(flavor).levels[-1]
                number = {name[-len(each.levels) :]: i for i, name in enumerate(leaves.names)}
                pods = self.room(flavor, Shape(each.requests)).pods
                if any(values not in number or pods[number[values]] < count for values, count in each.domains):
                    return False
                self.take([each])
                held.append(each)
            return True
        finally:
            self.give(held)

    def _make_field(self, flavor: FlavorSpec) -> FlavorDomains:
        labels = flavor.levels or ()
        nodes: list[dict[str, str] | None] = []
        for traits in self.capacity.traits:
            mine: dict[str, str] | None = None
            if traits is not None and traits.ready and not traits.unschedulable:
                mine = dict(traits.labels)
                of_flavor = all(mine.get(key) == value for key, value in flavor.labels.items())
                if not of_flavor or any(label not in mine for label in labels):
                    mine = None
            nodes.append(mine)
        inside = np.array([node is not None for node in nodes], np.bool_)
        return FlavorDomains(list_levels(nodes, labels), inside, bool(labels) and labels[-1] == HOSTNAME_LABEL)

    def _count_room_of_nodes(self, field: FlavorDomains, shape: Shape, beside: Shape | None) -> FlavorRoom:
        """Count pods by the free capacity of each node, for domains that are single nodes.

        beside: the shape of another pod that must also fit in the domain; None for none.
        """
        capacity, leaves = self.capacity, field.levels[-1]
        usage = self._count_taken()
        free = capacity.free() - usage
        if beside is None:
            fits, outside = capacity.count_fitting(shape, usage), 0
        else:
            fits, outside = self._count_fitting_beside(shape, beside, usage), -1
        pods = np.full(len(leaves.names), outside, np.int64)
        pods[leaves.of_node[field.inside]] = fits[field.inside]
        return FlavorRoom(pods, int(field.inside.sum()), partial(self._count_excluded, field, shape, free))

    def _count_fitting_beside(self, shape: Shape, beside: Shape, usage: Ints) -> Ints:
        """Return how many pods of a shape fit on each node next to one pod of the shape `beside`.

        A node on which that pod does not fit counts -1.

        usage: the used amounts, by resource row and node index.
        """
        capacity = self.capacity
        has_room = capacity.count_fitting(beside, usage) > 0
        one_each = capacity.sum_use(beside, has_room.astype(np.int64)) if has_room.any() else np.zeros_like(usage)
        return np.where(has_room, capacity.count_fitting(shape, usage + one_each), -1)

    def _count_room_of_domains(
        self, flavor: FlavorSpec, field: FlavorDomains, shape: Shape, beside: Shape | None
    ) -> FlavorRoom:
        """Count pods by the total capacity of each domain, because usage inside a domain is not known by node.

        Selectors do not count. A domain gets no more pods than its nodes could run one by one.
        """
        capacity, leaves = self.capacity, field.levels[-1]
        plain = Shape(shape.requests, (), shape.tolerations)
        whole = leaves.totals(np.where(field.inside, capacity.count_fitting(plain), 0))
        free = {
            resource: leaves.totals(np.where(field.inside, amounts, 0))
            for resource, amounts in self._free_of(shape, beside)
        }
        for i, name in enumerate(leaves.names):
            for resource, amount in self._taken.get((flavor.name, name), {}).items():
                if resource in free:
                    free[resource][i] -= amount
        if beside is None:
            pods = np.minimum(whole, _count_fits(free, shape))
        else:
            led = {resource: amounts - dict(beside.requests).get(resource, 0) for resource, amounts in free.items()}
            pods = np.where(_count_fits(free, beside) > 0, np.minimum(whole, _count_fits(led, shape)), -1)
        return FlavorRoom(pods, len(leaves.names), lambda: Counter(_find_scarcest(free, shape, pods)))

    def _free_of(self, *shapes: Shape | None) -> Iterable[tuple[str, Ints]]:
        resources = {resource for shape in shapes if shape is not None for resource, _ in shape.requests}
        return ((resource, self.capacity.free_of(resource)) for resource in sorted(resources))

    def _invalidate(self) -> None:
        self.version += 1
        self._fields.clear()
        self._hosts = self._of_nodes = None

    def _count_taken(self) -> Ints:
        capacity = self.capacity
        shape = len(capacity.rows()), len(capacity.names)
        if self._hosts is None:
            self._hosts = {
                host: i for i, traits in enumerate(capacity.traits) if traits and (host := _get_host(traits.labels))
            }
        if self._of_nodes is None or self._of_nodes.shape != shape:
            self._of_nodes = np.zeros(shape, np.int64)
            for key, amounts in self._taken.items():
                self._count_on_node(key, tuple(amounts.items()))
        return self._of_nodes

    def _count_on_node(self, key: _Key, amounts: Amounts) -> None:
        flavor, values = key
        if flavor or self._of_nodes is None or self._hosts is None:
            return
        rows = self.capacity.rows()
        if (node := self._hosts.get(values[0])) is not None:
            for resource, amount in amounts:
                if (row := rows.get(resource, len(rows))) < len(self._of_nodes):
                    self._of_nodes[row, node] += amount

    def _count_excluded(self, field: FlavorDomains, shape: Shape, free: Ints) -> dict[str, int]:
        """Count the nodes on which no pod fits, by reason in upstream's terms. Each node counts once."""
        capacity, rows = self.capacity, self.capacity.rows()
        reasons: dict[str, int] = {}
        rest = field.inside
        for reason, part in (
            ("nodeSelector", Shape((), shape.node_selector, _BEARS_ALL)),
            ("affinity", Shape((), node_terms=shape.node_terms, tolerations=_BEARS_ALL)),
        ):
            open_to = rest & capacity.eligible(part)
            if closed := int(rest.sum() - open_to.sum()):
                reasons[reason] = closed
            rest = open_to
        borne = rest & capacity.eligible(Shape((), tolerations=shape.tolerations))
        for i in np.flatnonzero(rest & ~borne):
            traits = capacity.traits[i]
            taint = find_untolerated_taint(traits.taints, shape.tolerations) if traits is not None else None
            if taint is not None:
                reason = f'taint "{taint.key}={taint.value}:{taint.effect}"'
                reasons[reason] = reasons.get(reason, 0) + 1
        rest = borne
        for resource, request in shape.requests:
            enough = free[rows[resource]] >= request if resource in rows else np.zeros_like(rest)
            if short := int((rest & ~enough).sum()):
                reasons[f'resource "{resource}"'] = short
            rest = rest & enough
        return reasons


def _list_keys(places: Places) -> Iterable[tuple[_Key, int]]:
    if places.levels == (HOSTNAME_LABEL,):
        return [(("", values), count) for values, count in places.domains]
    return [((flavor, values), count) for flavor in places.flavors for values, count in places.domains]


def _count_fits(free: Mapping[str, Ints], shape: Shape) -> Ints:
    """Return, for each row of the free amounts, how many pods of a shape fit into the row."""
    times: Ints = np.min([free[resource] // request for resource, request in shape.requests], axis=0)
    return np.maximum(times, 0)


def _find_scarcest(free: Mapping[str, Ints], shape: Shape, pods: Ints) -> Iterable[str]:
    """Yield, for each domain in which no pod fits, the name of the first resource that is too scarce."""
    for i in np.flatnonzero(pods == 0):
        yield next(
            (f'resource "{name}"' for name, request in shape.requests if free[name][i] < request), "fragmentation"
        )


def _get_host(labels: tuple[tuple[str, str], ...]) -> str:
    return dict(labels).get(HOSTNAME_LABEL, "")
