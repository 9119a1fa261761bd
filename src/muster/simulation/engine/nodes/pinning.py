"""Place the pods of a job on the nodes that its admission chose, as node selectors would. Pure.

Admission chooses nodes if the lowest level of a Topology is the host name. The scheduler then has no choice, and waits
until each of the nodes has room.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from muster.api.nodes import HOSTNAME_LABEL
from muster.gang.arrays import Ints
from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Placement, Refusal
from muster.gang.shapes import Shape
from muster.queueing.model import Places

# The nodes for the pods of each shape, with the number of pods on each node.
Pins: TypeAlias = Mapping[Shape, tuple[tuple[str, int], ...]]


def pin(shapes: Sequence[Shape], places: Sequence[Places | None], hosts: Mapping[str, str]) -> Pins | None:
    """Return the nodes for all podsets of a job; None if admission did not choose a node for every pod.

    shapes, places: the shape and the chosen domains of each podset.
    hosts: the node with each host name.
    """
    counts: dict[Shape, dict[str, int]] = {}
    for shape, chosen in zip(shapes, places, strict=True):
        if chosen is None or chosen.levels != (HOSTNAME_LABEL,):
            return None
        nodes = counts.setdefault(shape, {})
        for (host,), count in chosen.domains:
            if (node := hosts.get(host)) is None:
                return None
            nodes[node] = nodes.get(node, 0) + count
    return {shape: tuple(sorted(nodes.items())) for shape, nodes in counts.items()}


def index_hosts(labels: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """Return the node of each host name that exactly one node has.

    labels: pairs of a node's name and its labels.
    """
    nodes: dict[str, list[str]] = {}
    for name, its in labels:
        if (host := its.get(HOSTNAME_LABEL)) is not None:
            nodes.setdefault(host, []).append(name)
    return {host: names[0] for host, names in nodes.items() if len(names) == 1}


def place_pinned(capacity: Capacity, pins: Pins, extra_use: Ints | None) -> Placement | Refusal:
    """Return the chosen nodes if all pods fit there in addition to the extra use; else why a shape does not fit.

    extra_use: additional use of the nodes; None for none.
    """
    for shape, nodes in pins.items():
        fits = capacity.count_fitting(shape, extra_use)
        wanted, fitting = sum(count for _, count in nodes), 0
        for node, count in nodes:
            if (index := capacity.index_of(node)) is not None:
                fitting += min(count, int(fits[index]))
        if fitting < wanted:
            return Refusal(shape, wanted, fitting, proven=len(pins) == 1)
        if len(pins) > 1:
            used = capacity.sum_use(shape, capacity.counts(dict(nodes)))
            extra_use = used if extra_use is None else extra_use + used
    return Placement(pins)
