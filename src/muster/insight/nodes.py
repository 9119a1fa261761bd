"""The nodes: their health, the requests of the pods on each, and the topology domains that group them. Pure."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from muster.api.core import Node, Pod
from muster.api.kueue import Topology
from muster.api.nodes import DISK_PRESSURE, HOSTNAME_LABEL, has_full_disk, is_ready
from muster.api.ours.gpus import is_gpu
from muster.api.pods import is_finished, job_of, parse_amounts, pod_requests
from muster.api.values.quantity import QuantityError, ResourceList

ZONE_LABEL = "topology.kubernetes.io/zone"
# The maximum number of nodes in a group. A larger group is divided, so that a change of one node affects few others.
MOST_IN_GROUP = 200
_NOTHING = Counter[str]()
_DIGITS = re.compile(r"([0-9]+)")


class NodeAmount(Struct, frozen=True, gc=False):
    """A resource of a node, in units of `quantity.parse_amount`.

    has: the allocatable amount.
    used: the amount that pods request; None if unknown.
    """

    resource: str
    used: int | None
    has: int

    @property
    def share(self) -> float:
        """The requested part, from 0 to 1; 0 if unknown."""
        return min(1.0, (self.used or 0) / self.has) if self.has else 0.0


class NodeRow(Struct, frozen=True, gc=False):
    """A row about a node.

    health: Ready, or what is wrong, as `describe_health` returns it.
    jobs: the jobs on the node as NAMESPACE/NAME, the job with the most pods there first; None if unknown.
    """

    name: str
    health: str
    labels: Mapping[str, str]
    amounts: tuple[NodeAmount, ...]
    jobs: tuple[str, ...] | None

    @property
    def load(self) -> float:
        """The requested part of the node's scarcest resource, from 0 to 1.

        The number of pods does not count as a resource.
        """
        return max([one.share for one in self.amounts if one.resource != "pods"], default=0.0)


class NodeGroup(Struct, frozen=True):
    """Nodes in the same topology domain.

    name: the values of the domain's labels, or the first and the last node's name.
    """

    name: str
    rows: tuple[NodeRow, ...]


def describe_health(node: Node) -> str:
    """Return `Ready` or `NotReady`, followed by conditions that keep new pods away: `Ready,Cordoned`."""
    states = ["Ready" if is_ready(node) else "NotReady"]
    states += ["Cordoned"] if node.spec.unschedulable else []
    states += [DISK_PRESSURE] if has_full_disk(node) else []
    return ",".join(states)


def list_node_resources(nodes: Iterable[Node]) -> list[str]:
    """Return the resources of nodes that tables show, in order: CPUs, memory, GPUs, the number of pods."""
    return [*_order_resources(frozenset(resource for node in nodes for resource in node.status.allocatable))]


@lru_cache(maxsize=64)  # most nodes have the same resources as others
def _order_resources(resources: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in ("cpu", "memory", *sorted(filter(is_gpu, resources)), "pods") if name in resources)


def make_node_row(node: Node, pods: Sequence[Pod] | None) -> NodeRow:
    """Return the row of a node: its health, its labels, its amounts and its jobs.

    pods: the pods on the node; None if the reader may not see all of them, so that the use and the jobs are unknown.
    """
    name, has = node.metadata.name, _read_amounts(node.status.allocatable)
    used, jobs = sum_pods(pods or ())
    tally, pods_by_job = used.get(name, _NOTHING), jobs.get(name)
    return NodeRow(
        name,
        describe_health(node),
        node.metadata.labels,
        tuple(
            NodeAmount(one, None if pods is None else tally.get(one, 0), has.get(one, 0))
            for one in list_node_resources([node])
        ),
        None if pods is None else tuple(job for job, _ in pods_by_job.most_common()) if pods_by_job else (),
    )


def make_node_rows(
    nodes: Iterable[Node],
    pods: Iterable[Pod] | None,
    make: Callable[[Node, Sequence[Pod] | None], NodeRow] = make_node_row,
) -> list[NodeRow]:
    """Return the rows of nodes by name.

    pods: all pods; None if the reader may not see all of them.
    make: returns the row of a node, as `make_node_row` does.
    """
    on_node: dict[str, list[Pod]] = {}
    for pod in pods or ():
        on_node.setdefault(pod.spec.node_name, []).append(pod)
    ordered = sorted(nodes, key=lambda one: _sort_key(one.metadata.name))
    return [make(one, None if pods is None else on_node.get(one.metadata.name, ())) for one in ordered]


def sum_cluster(nodes: Sequence[Node], pods: Iterable[Pod] | None) -> list[NodeAmount]:
    """Return the amounts of all nodes together, by resource.

    pods: the pods on nodes; None if the reader may not see all of them, so that the use is unknown.
    """
    has: Counter[str] = Counter()
    # Most nodes are like many others, and a quantity takes longer to read than to find again.
    for resources, count in Counter(tuple(node.status.allocatable.items()) for node in nodes).items():
        has.update({one: number * count for one, number in _read_amounts(dict(resources)).items()})
    used: Counter[str] = Counter()
    for pod in pods or ():
        if pod.spec.node_name and not is_finished(pod):
            for resource, amount in request_of(pod).items():  # `update` of a Counter is half as fast for so few items
                used[resource] += amount
    return [NodeAmount(one, None if pods is None else used[one], has[one]) for one in list_node_resources(nodes)]


def sum_pods(pods: Iterable[Pod]) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
    """Return, by node, the requests of its pods (their number as `pods`), and how many pods each job has there."""
    used: dict[str, Counter[str]] = {}
    jobs: dict[str, Counter[str]] = {}
    for pod in pods:
        node = pod.spec.node_name
        if not node or is_finished(pod):
            continue
        tally = used.setdefault(node, Counter())
        tally.update(request_of(pod))
        jobs.setdefault(node, Counter())[f"{pod.metadata.namespace}/{job_of(pod)[1]}"] += 1
    return used, jobs


def request_of(pod: Pod) -> dict[str, int]:
    """Return the requests of a pod, and 1 of the resource `pods`. If a quantity is invalid, only the latter."""
    try:
        return {**pod_requests(pod.spec), "pods": 1}
    except QuantityError:
        return {"pods": 1}


def list_levels(nodes: Sequence[Node], topologies: Iterable[Topology]) -> dict[str, tuple[str, ...]]:
    """Return the labels that group nodes, by the name of their Topology; the zone label also by its own name.

    Left out are labels that no node has, the level of single hosts, and Topologies without other labels.
    """
    present = {label for node in nodes for label in node.metadata.labels}
    levels = {
        one.metadata.name: labels
        for one in sorted(topologies, key=lambda one: one.metadata.name)
        if (labels := tuple(_list_wide_labels(one, present)))
    }
    return levels | ({ZONE_LABEL: (ZONE_LABEL,)} if ZONE_LABEL in present else {})


def _list_wide_labels(topology: Topology, present: set[str]) -> list[str]:
    return [
        level.node_label
        for level in topology.spec.levels
        if level.node_label != HOSTNAME_LABEL and level.node_label in present
    ]


def group_rows(rows: Iterable[NodeRow], labels: Sequence[str]) -> list[NodeGroup]:
    """Return the rows grouped by the nodes' values of these labels, in order; nodes that lack a label come last."""
    places: dict[tuple[str, ...], list[NodeRow]] = {}
    for row in rows:
        place = tuple(row.labels.get(label, "") for label in labels)
        places.setdefault(place if all(place) else (), []).append(row)
    ordered = sorted(places.items(), key=lambda item: (not item[0], [_sort_key(value) for value in item[0]]))
    return [group for place, members in ordered for group in _split_group(place, members, is_placed=bool(labels))]


def _split_group(place: tuple[str, ...], rows: list[NodeRow], *, is_placed: bool) -> Iterable[NodeGroup]:
    name = " / ".join(place) or ("without a place" if is_placed else "")
    for first in range(0, len(rows), MOST_IN_GROUP):
        part = tuple(rows[first : first + MOST_IN_GROUP])
        span = f"{part[0].name} to {part[-1].name}" if len(part) > 1 else part[0].name
        is_whole = len(rows) <= MOST_IN_GROUP
        yield NodeGroup(name if name and is_whole else f"{name}: {span}" if name else span, part)


def _read_amounts(resources: ResourceList) -> dict[str, int]:
    try:
        return parse_amounts(resources)
    except QuantityError:
        return {}


@lru_cache(maxsize=16_384)
def _sort_key(name: str) -> tuple[str | int, ...]:
    """Return a sort key for a name by which `node-2` comes before `node-10`."""
    return tuple(int(part) if number % 2 else part for number, part in enumerate(_DIGITS.split(name)))
