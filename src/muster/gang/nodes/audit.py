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
from muster.gang.shapes import Guest

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
        if known is None or capacity.guests.finds(uid):
            return None
        return Difference(known[0], f"pod {uid} is recorded and not found by its node or labels")
    if known is None or seat is None:
        there = (known or seat or ("",))[0]
        return Difference(there, f"pod {uid} is {'recorded and not here' if known else 'here and not recorded'}")
    if known[0] != seat[0]:
        return Difference(seat[0], f"pod {uid} is here, and recorded on {known[0]}")
    return Difference(seat[0], f"pod {uid} is recorded as another than it is")


def sum_differs(capacity: Capacity, name: str) -> Difference | None:
    """Where what is used of a node is not the sum of the pods that are recorded there."""
    index, asked = capacity.index_of(name), Counter[str]()
    if index is None:
        return None
    for uid in capacity.guests.on(name):
        known = capacity.assigned(uid)
        if known is None or known[0] != name:
            return Difference(name, f"pod {uid} is found there and not recorded there")
        for resource, amount in known[1].requests:
            asked[resource] += amount
    for resource in capacity.rows():
        if asked[resource] != (used := int(capacity.used_of(resource)[index])):
            return Difference(name, f"its pods use {asked[resource]} {resource}, and {used} are recorded")
    return None


def rest_differs(capacity: Capacity) -> Iterator[Difference]:
    """What is wrong that concerns no node or pod alone: what is remembered, and by what pods are found."""
    vacant = np.array([name is None for name in capacity.names], np.bool_)
    if capacity.free()[:, vacant].any():
        yield Difference("", "room is recorded where no node is")
    if capacity.guests.finds_others():
        yield Difference("", "other pods are found by node or label than are recorded")
    nothing = np.zeros_like(capacity.free())
    for shape in capacity.remembered[:_SHAPES]:
        for wrong in np.flatnonzero(capacity.fitting(shape) != capacity.fitting(shape, nothing)):
            name = capacity.names[int(wrong)] or ""
            yield Difference(name, "what fits there is not what is remembered")
    anew = Guests()
    for uid, (node, guest) in capacity.guests.items():
        if guest.holds or guest.claims or guest.anti_affinity:
            anew.add(uid, node, guest)
    if capacity.guests.rules() != anew.rules():
        yield Difference("", "pods are not found by their ports, volumes or terms")


def rebuilt(capacity: Capacity, nodes: Iterable[Node], seats: Mapping[str, Seat]) -> Capacity:
    """All made anew from the nodes and the pods on them. What is known of namespaces and volumes stays."""
    anew = Capacity(capacity.strategy)
    anew.volumes, anew.guests.namespaces = capacity.volumes, capacity.guests.namespaces
    for node in sorted(nodes, key=lambda node: node.metadata.name):
        anew.set_node(node)
    for uid, (node_name, guest) in seats.items():
        anew.assign(uid, node_name, guest)
    return anew
