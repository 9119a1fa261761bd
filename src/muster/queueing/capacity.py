"""Quota that follows the nodes: as much of each flavor as the nodes with its labels have (users' wish kueue#10270)."""

from collections import Counter
from collections.abc import Iterable, Mapping

from muster.api.core import Node
from muster.api.kueue import FlavorQuotas, ResourceFlavor, ResourceGroup, ResourceQuota
from muster.api.quantity import amount, format_amount

# On a ClusterQueue: its nominal quota is what nodes have. Only for queues with one resource group.
FOLLOWS_NODES = "muster.dev/quota-from-nodes"


def quota_from_nodes(
    groups: tuple[ResourceGroup, ...], flavors: Mapping[str, ResourceFlavor], nodes: Iterable[Node]
) -> tuple[ResourceGroup, ...]:
    """The group with the quotas that the nodes give it, and with all the resources that the nodes have.

    A node counts for the first flavor whose labels it has, once it is ready; a cordoned one does not count. Limits of
    borrowing and lending are kept.
    """
    (group,) = groups
    totals: dict[str, Counter[str]] = {flavor.name: Counter() for flavor in group.flavors}
    for node in nodes:
        name = next((name for name in totals if _has_labels(node, flavors.get(name))), None)
        if name is not None and _counts(node):
            totals[name].update({resource: amount(resource, q) for resource, q in node.status.allocatable.items()})
    resources = sorted({resource for total in totals.values() for resource in total} | set(group.covered_resources))
    return (
        ResourceGroup(
            covered_resources=tuple(resources),
            flavors=tuple(_quotas(flavor, resources, totals[flavor.name]) for flavor in group.flavors),
        ),
    )


def _has_labels(node: Node, flavor: ResourceFlavor | None) -> bool:
    return flavor is not None and flavor.spec.node_labels.items() <= node.metadata.labels.items()


def _counts(node: Node) -> bool:
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)
    return ready and not node.spec.unschedulable


def _quotas(flavor: FlavorQuotas, resources: Iterable[str], total: Mapping[str, int]) -> FlavorQuotas:
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
