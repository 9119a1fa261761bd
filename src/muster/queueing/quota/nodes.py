"""Set a queue's quota to the capacity of the nodes that have each flavor's labels (as requested in kueue#10270).

Other ClusterQueues may own a part of that capacity (`muster.dev/quota-of`). Their part is subtracted, so that no
capacity is counted twice.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from muster.api.core import Node
from muster.api.kueue import ClusterQueue, FlavorQuotas, ResourceFlavor, ResourceGroup, ResourceQuota
from muster.api.nodes import is_ready
from muster.api.ours.teams import FOLLOWS_NODES, QUOTA_OF
from muster.api.values.quantity import format_amount, parse_amount
from muster.api.values.taints import find_untolerated_taint
from muster.queueing.model import FlavorResource

NOTHING_GIVEN: Mapping[FlavorResource, int] = {}


def is_following_nodes(queue: ClusterQueue) -> bool:
    """Return whether the queue's quota is computed from the nodes."""
    return queue.metadata.annotations.get(FOLLOWS_NODES) == "true" and len(queue.spec.resource_groups) == 1


def follow_nodes(
    queue: ClusterQueue,
    flavors: Mapping[str, ResourceFlavor],
    nodes: Iterable[Node],
    queues: Iterable[ClusterQueue] = (),
) -> ClusterQueue:
    """Return the ClusterQueue with its quota computed from these nodes; unchanged if its quota does not follow nodes.

    queues: all ClusterQueues, some of which may own a part of this one's capacity.
    """
    if not is_following_nodes(queue):
        return queue
    parts_quota = sum_parts(queue.metadata.name, queues)
    groups = quota_from_nodes(queue.spec.resource_groups, flavors, nodes, parts_quota)
    return msgspec.structs.replace(queue, spec=msgspec.structs.replace(queue.spec, resource_groups=groups))


def sum_parts(name: str, queues: Iterable[ClusterQueue]) -> dict[FlavorResource, int]:
    """Return the total quota of the ClusterQueues that own a part of the capacity of the ClusterQueue `name`."""
    total = Counter[FlavorResource]()
    for part in queues:
        if part.metadata.annotations.get(QUOTA_OF) == name:
            total.update(
                {
                    FlavorResource(flavor.name, quota.name): parse_amount(quota.name, quota.nominal_quota)
                    for group in part.spec.resource_groups
                    for flavor in group.flavors
                    for quota in flavor.resources
                }
            )
    return dict(total)


def cover_same(part: tuple[ResourceGroup, ...], whole: tuple[ResourceGroup, ...]) -> tuple[ResourceGroup, ...]:
    """Return the part's resource groups, extended by the resources that only the whole queue has.

    The part gets a quota of 0 of these resources, so it can only borrow them.
    """
    if len(part) != 1 or len(whole) != 1:
        return part
    (group,), (other,) = part, whole
    missing = [resource for resource in other.covered_resources if resource not in group.covered_resources]
    nothing = tuple(ResourceQuota(name=resource, nominal_quota="0") for resource in missing)
    flavors = tuple(
        msgspec.structs.replace(flavor, resources=(*flavor.resources, *nothing)) for flavor in group.flavors
    )
    return (ResourceGroup(covered_resources=(*group.covered_resources, *missing), flavors=flavors),)


def quota_from_nodes(
    groups: tuple[ResourceGroup, ...],
    flavors: Mapping[str, ResourceFlavor],
    nodes: Iterable[Node],
    parts_quota: Mapping[FlavorResource, int] = NOTHING_GIVEN,
) -> tuple[ResourceGroup, ...]:
    """Return the resource groups with the quotas that follow from the nodes, for all resources that the nodes have.

    parts_quota: the quota that the parts of the queue own, which is subtracted.

    A ready node counts for the first flavor whose labels it has and whose taints or tolerations cover its own taints. A
    cordoned node does not count. Limits of borrowing and lending are kept. A resource that no node has any more is kept
    with 0.
    """
    (group,) = groups
    totals: dict[str, Counter[str]] = {flavor.name: Counter() for flavor in group.flavors}
    for node in nodes:
        name = next((name for name in totals if _is_in_flavor(node, flavors.get(name))), None)
        if name is not None and _is_usable(node):
            totals[name].update(
                {resource: parse_amount(resource, q) for resource, q in node.status.allocatable.items()}
            )
    for fr, parts in parts_quota.items():
        if fr.flavor in totals:
            totals[fr.flavor][fr.resource] = max(0, totals[fr.flavor][fr.resource] - parts)
    resources = sorted({resource for total in totals.values() for resource in total} | set(group.covered_resources))
    return (
        ResourceGroup(
            covered_resources=tuple(resources),
            flavors=tuple(_fill_quotas(flavor, resources, totals[flavor.name]) for flavor in group.flavors),
        ),
    )


def _is_in_flavor(node: Node, flavor: ResourceFlavor | None) -> bool:
    """Return whether pods with this flavor may run on the node, by the node's labels and taints."""
    if flavor is None or not flavor.spec.node_labels.items() <= node.metadata.labels.items():
        return False
    expected = {(taint.key, taint.effect) for taint in flavor.spec.node_taints}
    others = (taint for taint in node.spec.taints if (taint.key, taint.effect) not in expected)
    return find_untolerated_taint(others, flavor.spec.tolerations) is None


def _is_usable(node: Node) -> bool:
    ready = is_ready(node)
    return ready and not node.spec.unschedulable


def _fill_quotas(flavor: FlavorQuotas, resources: Iterable[str], total: Mapping[str, int]) -> FlavorQuotas:
    old = {quota.name: quota for quota in flavor.resources}
    quotas = tuple(
        ResourceQuota(
            name=resource,
            nominal_quota=format_amount(resource, total.get(resource, 0)),
            borrowing_limit=old[resource].borrowing_limit if resource in old else None,
            lending_limit=old[resource].lending_limit if resource in old else None,
        )
        for resource in resources
    )
    return FlavorQuotas(name=flavor.name, resources=quotas)


def find_quota_state(node: Node) -> tuple[object, ...]:
    """Return the fields of a node on which quota depends, so that callers can ignore heartbeats."""
    ready = [condition.status for condition in node.status.conditions if condition.type == "Ready"]
    return node.status.allocatable, node.spec.unschedulable, node.spec.taints, node.metadata.labels, ready
