"""Compare a node with its best state: find the temporary faults that keep pods away from it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from muster.api.core import Node, NodeCondition
from muster.api.nodes import DISK_PRESSURE, is_ready, taints_of
from muster.api.validation.resources import is_extended
from muster.api.values.quantity import format_amount, parse_amount

# The prefix of taints that mirror the state of a node.
_PASSING = "node.kubernetes.io/"

_READY = NodeCondition(type="Ready", status="True")
_STATES = ("Ready", DISK_PRESSURE)

# The phrases for taints that repeat a condition of the node.
_WORDS = {"not-ready": "not ready", "unreachable": "not ready", "unschedulable": "cordoned"}


@dataclass(frozen=True, slots=True)
class NodeFault:
    """The temporary faults of a node, as phrases for users.

    states: why the node accepts no pods; "" if it accepts them.
    devices: a phrase with the number of unhealthy devices, by resource.
    """

    node: str
    states: str
    devices: Mapping[str, str]


def node_at_best(node: Node) -> Node:
    """Return the node as if it were ready, uncordoned, without disk pressure and with healthy devices."""
    return heal_devices(recover_node(node))


def recover_node(node: Node) -> Node:
    """Return the node as if it were ready, uncordoned, and without disk pressure."""
    if not find_lapses(node):
        return node
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(_PASSING))
    conditions = (*(one for one in node.status.conditions if one.type not in _STATES), _READY)
    return replace(
        node,
        spec=replace(node.spec, unschedulable=False, taints=taints),
        status=replace(node.status, conditions=conditions),
    )


def heal_devices(node: Node) -> Node:
    """Return the node as if all its devices were healthy."""
    ill = count_ill_devices(node)
    if not ill:
        return node
    allocatable = dict(node.status.allocatable) | {resource: node.status.capacity[resource] for resource in ill}
    return replace(node, status=replace(node.status, allocatable=allocatable))


def count_ill_devices(node: Node) -> dict[str, int]:
    """Return the number of a node's unhealthy devices by resource.

    A kubelet counts all devices in the capacity, and only the healthy ones in the allocatable amount. Other resources
    are ignored, because a node always reserves a part of them for itself.
    """
    has, gives = node.status.capacity, node.status.allocatable
    lacking = {
        resource: parse_amount(resource, has[resource]) - parse_amount(resource, gives.get(resource, 0))
        for resource in sorted(has)
        if has[resource] != gives.get(resource) and is_extended(resource)
    }
    return {resource: count for resource, count in lacking.items() if count > 0}


def find_lapses(node: Node) -> tuple[str, ...]:
    """Return the node's temporary states that keep pods away, as phrases, such as `not ready`."""
    lapses = [] if is_ready(node) else ["not ready"]
    lapses += ["cordoned"] if node.spec.unschedulable else []
    for taint in taints_of(node):
        if taint.key.startswith(_PASSING):
            state = taint.key.removeprefix(_PASSING)
            lapses.append(_WORDS.get(state, state.replace("-", " ")))
    return tuple(dict.fromkeys(lapses))


def find_lack(node: Node) -> NodeFault | None:
    """Return the faults of a node; None if it has none."""
    name, states, devices = node.metadata.name, find_lapses(node), count_ill_devices(node)
    if not states and not devices:
        return None
    ill = {resource: f"{format_amount(resource, n)} {resource} of {name} (ill)" for resource, n in devices.items()}
    return NodeFault(name, f"{name} ({', '.join(states)})" if states else "", ill)
