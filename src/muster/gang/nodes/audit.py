"""Whether the arrays still say what the nodes and pods say: they are followed change by change, and one missed change,
or one counted twice, would be wrong for ever.

Each node and pod is checked by itself, so that it can be done in slices while events come. `rebuilt` mends.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from msgspec import Struct

from muster.api.core import Node
from muster.gang.nodes.capacity import Capacity
from muster.gang.nodes.guests import Guests
from muster.gang.shapes import Amounts, Guest

# Of so many shapes it is checked what is remembered.
_SHAPES = 100

Seat = tuple[str, Guest]


class Difference(Struct, frozen=True):
    """What is recorded and is not so, in words, and the node that it concerns; "" for none."""

    node: str
    text: str


def node_differs(capacity: Capacity, node: Node) -> Difference | None:
    """What is recorded of a node that it does not say itself."""
    name = node.metadata.name
    fresh = Capacity()
    fresh.set_node(node)
    index = capacity.index_of(name)
    if index is None:
        return Difference(name, "the node is not recorded")
    if capacity.traits[index] != fresh.traits[0]:
        return Difference(name, "other labels, taints or conditions are recorded than the node has")
    for resource in sorted({*capacity.rows(), *fresh.rows()}):
        has, known = int(fresh.allocatable_of(resource)[0]), int(capacity.allocatable_of(resource)[index])
        if has != known:
            return Difference(name, f"the node has {has} {resource}, and {known} are recorded")
    return None


def pod_differs(capacity: Capacity, uid: str, seat: Seat | None) -> Difference | None:
    """What is recorded of a pod that is not so. seat: its node, and what it is to others; None if it is on none."""
    known = capacity.assigned(uid)
    if known == seat:
        return None
    if known is None or seat is None:
        there = (known or seat or ("",))[0]
        return Difference(there, f"pod {uid} is {'recorded and not here' if known else 'here and not recorded'}")
    if known[0] != seat[0]:
        return Difference(seat[0], f"pod {uid} is here, and recorded on {known[0]}")
    return Difference(seat[0], f"pod {uid} is recorded as another than it is")


def sums_differ(capacity: Capacity) -> Iterator[Difference]:
    """Where what is used is not the sum of the pods that are recorded, or these are not found by what they have."""
    asked: Counter[tuple[str, Amounts]] = Counter()
    anew = Guests()
    for uid, (node, guest) in capacity.guests.items():
        asked[node, guest.requests] += 1
        anew.add(uid, node, guest)
    used = np.zeros_like(capacity.free())
    rows = capacity.rows()
    for (node, requests), number in asked.items():
        if (index := capacity.index_of(node)) is not None:
            for resource, amount in requests:
                if (row := rows.get(resource)) is not None:
                    used[row, index] += number * amount
    for resource, row in rows.items():
        known = capacity.allocatable_of(resource) - capacity.free_of(resource)
        for wrong in np.flatnonzero(known != used[row]):
            text = f"its pods use {used[row, wrong]} {resource}, and {known[wrong]} are recorded"
            yield Difference(capacity.names[int(wrong)] or "", text)
    for shape in capacity.remembered[:_SHAPES]:
        for wrong in np.flatnonzero(capacity.fitting(shape) != capacity.fitting(shape, np.zeros_like(used))):
            name = capacity.names[int(wrong)] or ""
            yield Difference(name, "what fits there is not what is remembered")
    filed = capacity.guests.is_filed
    if capacity.guests.indexes(filed=filed) != anew.indexes(filed=filed):
        yield Difference("", "pods are not found by their ports, volumes, labels or terms")


def rebuilt(capacity: Capacity, nodes: Iterable[Node], seats: Mapping[str, Seat]) -> Capacity:
    """All made anew from the nodes and the pods on them. What is known of namespaces and volumes stays."""
    anew = Capacity(capacity.strategy)
    anew.volumes, anew.guests.namespaces = capacity.volumes, capacity.guests.namespaces
    for node in sorted(nodes, key=lambda node: node.metadata.name):
        anew.set_node(node)
    for uid, (node_name, guest) in seats.items():
        anew.assign(uid, node_name, guest)
    return anew
