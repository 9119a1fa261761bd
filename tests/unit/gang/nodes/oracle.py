"""What the arrays must say: nodes and pods are counted anew, and held against what was followed change by change.

One missed change, or one counted twice, would be wrong for ever. `rebuilt` counts all anew.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from msgspec import Struct

from muster.api.core import Node
from muster.gang.nodes.capacity import Capacity
from muster.gang.nodes.guests import Guests
from muster.gang.shapes import Guest

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
        if known is None or _finds(capacity.guests, uid):
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
    if _finds_others(capacity.guests):
        yield Difference("", "other pods are found by node or label than are recorded")
    nothing = np.zeros_like(capacity.free())
    for shape in list(capacity._fits):
        for wrong in np.flatnonzero(capacity.count_fitting(shape) != capacity.count_fitting(shape, nothing)):
            name = capacity.names[int(wrong)] or ""
            yield Difference(name, "what fits there is not what is remembered")
    anew = Guests()
    for uid, (node, guest) in capacity.guests.items():
        if guest.holds or guest.claims or guest.anti_affinity:
            anew.add(uid, node, guest)
    if _rules(capacity.guests) != _rules(anew):
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


def differences(capacity: Capacity, nodes: Iterable[Node], seats: Mapping[str, Seat | None]) -> list[Difference]:
    """All that is recorded and is not so."""
    nodes = list(nodes)
    of_nodes = [node_differs(capacity, node) for node in nodes]
    of_pods = [pod_differs(capacity, uid, seat) for uid, seat in seats.items()]
    sums = [sum_differs(capacity, node.metadata.name) for node in nodes]
    return [one for one in (*of_nodes, *of_pods, *sums, *rest_differs(capacity)) if one is not None]


def _finds(guests: Guests, uid: str) -> bool:
    """Whether a pod that is known is found by its node; once terms ask, by its namespace and labels too."""
    node, guest = guests._known[uid]
    if uid not in guests._on_node.get(node, ()):
        return False
    if guests._in_namespace is None:
        return True
    labels = ((guest.namespace, key, value) for key, value in guest.labels.items())
    filed = uid in guests._in_namespace.get(guest.namespace, ())
    return filed and all(uid in guests._labelled.get(label, ()) for label in labels)


def _finds_others(guests: Guests) -> bool:
    """Whether, if each pod that is known is found, others are too."""
    if sum(map(len, guests._on_node.values())) != len(guests._known):
        return True
    if guests._in_namespace is None:
        return False
    labels = sum(len(guest.labels) for _, guest in guests._known.values())
    filed = sum(map(len, guests._in_namespace.values())), sum(map(len, guests._labelled.values()))
    return filed != (len(guests._known), labels)


def _rules(guests: Guests) -> tuple[object, ...]:
    """All by which those are found that keep others away, to be compared."""
    return guests._holding, guests._claiming, guests._repelling
