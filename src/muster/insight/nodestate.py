"""How a node is now, and how it is at its best: what keeps pods away from it and passes. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from muster.api.core import Node, NodeCondition
from muster.api.nodes import DISK_PRESSURE, is_ready, taints_of
from muster.api.validation.resources import is_extended
from muster.api.values.quantity import amount, format_amount

# Taints that come and go with the state of a node.
_PASSING = "node.kubernetes.io/"

_READY = NodeCondition(type="Ready", status="True")
_STATES = ("Ready", DISK_PRESSURE)

# What taints say that is said of the node itself as well.
_WORDS = {"not-ready": "not ready", "unreachable": "not ready", "unschedulable": "cordoned"}


@dataclass(frozen=True, slots=True)
class Lack:
    """What of a node is not at its best, in words: it takes no pods for a while, or some of its devices are ill.

    states: "" if it takes pods. devices: by resource.
    """

    node: str
    states: str
    devices: Mapping[str, str]


def at_best(node: Node) -> Node:
    """As it may become."""
    return healed(recovered(node))


def recovered(node: Node) -> Node:
    """Ready, uncordoned and with room on its disk."""
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(_PASSING))
    conditions = (*(one for one in node.status.conditions if one.type not in _STATES), _READY)
    return replace(
        node,
        spec=replace(node.spec, unschedulable=False, taints=taints),
        status=replace(node.status, conditions=conditions),
    )


def healed(node: Node) -> Node:
    """With all its devices well."""
    allocatable = dict(node.status.allocatable) | {resource: node.status.capacity[resource] for resource in ill(node)}
    return replace(node, status=replace(node.status, allocatable=allocatable))


def ill(node: Node) -> dict[str, int]:
    """How many of its devices are ill, by resource: a kubelet counts all in the capacity, the others for pods.

    Of other resources a node keeps some back for good.
    """
    has, gives = node.status.capacity, node.status.allocatable
    lacking = {
        resource: amount(resource, has[resource]) - amount(resource, gives.get(resource, 0))
        for resource in sorted(has)
        if is_extended(resource)
    }
    return {resource: count for resource, count in lacking.items() if count > 0}


def lapses(node: Node) -> tuple[str, ...]:
    """In what states it takes no pods, in words."""
    found = [] if is_ready(node) else ["not ready"]
    found += ["cordoned"] if node.spec.unschedulable else []
    for taint in taints_of(node):
        if taint.key.startswith(_PASSING):
            state = taint.key.removeprefix(_PASSING)
            found.append(_WORDS.get(state, state.replace("-", " ")))
    return tuple(dict.fromkeys(found))


def lack_of(node: Node) -> Lack | None:
    """None if it is at its best."""
    name, states, devices = node.metadata.name, lapses(node), ill(node)
    if not states and not devices:
        return None
    said = {resource: f"{format_amount(resource, n)} {resource} of {name} (ill)" for resource, n in devices.items()}
    return Lack(name, f"{name} ({', '.join(states)})" if states else "", said)
