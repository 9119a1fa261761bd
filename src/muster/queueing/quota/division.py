"""Divide the resources of the nodes between the ClusterQueue that follows them and its parts. Pure.

A part is a ClusterQueue that owns a part of these resources. The quotas of all of them are decided together. The
written quotas of two objects never change at the same moment, and in between their sum must not exceed the nodes. So
the tree gets the quotas that are decided here, and not the written ones.

Members in one tree of quota lend to each other, so only the sum of their quotas matters. A member in another tree gets
no quota that members elsewhere still use beyond their own; it gets that quota when it is free.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from muster.api.core import Node as ClusterNode
from muster.api.kueue import ClusterQueue, ResourceFlavor
from muster.api.ours.teams import QUOTA_OF
from muster.queueing.convert import queue_spec
from muster.queueing.model import FlavorResource, QueueSpec, Usage
from muster.queueing.quota.nodes import follow_nodes, is_following_nodes
from muster.queueing.quota.tree import Tree

# The decided quota of each member, by name.
Decided = Mapping[str, Usage]

NOTHING_DECIDED: Decided = {}


class Member(Struct, frozen=True):
    """A ClusterQueue of a division.

    nominal: the quota in its spec.
    used: the quota that its workloads hold.
    root: the name of the root of its tree.
    """

    name: str
    nominal: Usage
    used: Usage
    root: str


def is_member(queue: ClusterQueue) -> bool:
    """Return whether a ClusterQueue takes part in a division of quota.

    Its quota follows the nodes, or its annotation names the ClusterQueue that gives it quota.
    """
    return is_following_nodes(queue) or QUOTA_OF in queue.metadata.annotations


def list_divisions(queues: Collection[ClusterQueue]) -> list[list[ClusterQueue]]:
    """Return the members of each division: the ClusterQueue that follows the nodes, and its parts."""
    parts: dict[str, list[ClusterQueue]] = defaultdict(list)
    for queue in queues:
        if QUOTA_OF in queue.metadata.annotations and not is_following_nodes(queue):
            parts[queue.metadata.annotations[QUOTA_OF]].append(queue)
    return [[whole, *parts[whole.metadata.name]] for whole in filter(is_following_nodes, queues)]


def limit_quotas(spec: QueueSpec, decided: Decided) -> QueueSpec:
    """Return the ClusterQueue with the quota that `decide_quotas` decided; unchanged if it belongs to no division."""
    nominal = decided.get(spec.name)
    if nominal is None:
        return spec
    quotas = {
        fr: msgspec.structs.replace(quota, nominal=nominal.get(fr, quota.nominal)) for fr, quota in spec.quotas.items()
    }
    return msgspec.structs.replace(spec, quotas=quotas)


def decide_quotas(
    tree: Tree,
    queues: Collection[ClusterQueue],
    flavors: Mapping[str, ResourceFlavor],
    nodes: Iterable[ClusterNode],
) -> Decided:
    """Return the quota of every member of a division, by the member's name.

    tree: has the current usage of the ClusterQueues.
    queues: all ClusterQueues.
    """
    decided: dict[str, Usage] = {}
    nodes = list(nodes)
    for whole, *parts in list_divisions(queues):
        name = whole.metadata.name
        capacity = queue_spec(follow_nodes(whole, flavors, nodes)).quotas
        members = [_make_member(tree, queue_spec(one)) for one in (whole, *parts) if one.metadata.name in tree.queues]
        if members and members[0].name == name:
            decided |= divide({fr: quota.nominal for fr, quota in capacity.items()}, members[0], members[1:])
    return decided


def _make_member(tree: Tree, spec: QueueSpec) -> Member:
    node = tree.queues[spec.name]
    nominal = {fr: quota.nominal for fr, quota in spec.quotas.items()}
    return Member(spec.name, nominal, node.tallies.total.reserved, f"{node.root.is_queue}/{node.root.name}")


def divide(capacity: Usage, whole: Member, parts: Sequence[Member]) -> dict[str, dict[FlavorResource, int]]:
    """Return the quota of each member, by name. The sum of the quotas does not exceed the capacity.

    A resource of the capacity's flavors that the nodes do not have counts as 0. If the quotas of the parts exceed the
    capacity, each is reduced in proportion. The whole gets the remaining capacity.
    """
    members = (whole, *parts)
    quotas: dict[str, dict[FlavorResource, int]] = {member.name: {} for member in members}
    flavors = {fr.flavor for fr in capacity}
    unknown = (fr for part in parts for fr in part.nominal if fr.flavor in flavors and fr not in capacity)
    for fr, most in (dict.fromkeys(unknown, 0) | dict(capacity)).items():
        given = scale([part.nominal.get(fr, 0) for part in parts], most)
        given = _keep_used(fr, [most - sum(given), *given], members)
        for member, amount in zip(members, given, strict=True):
            quotas[member.name][fr] = amount
    return quotas


def scale(amounts: Sequence[int], most: int) -> list[int]:
    """Return the amounts, or, if their sum exceeds `most`, amounts in the same proportion with the sum `most`."""
    total = sum(amounts)
    if total <= most:
        return list(amounts)
    scaled = [amount * most // total for amount in amounts]
    by_rest = sorted(range(len(amounts)), key=lambda index: (-(amounts[index] * most % total), index))
    for index in by_rest[: most - sum(scaled)]:
        scaled[index] += 1
    return scaled


def _keep_used(fr: FlavorResource, quota: Sequence[int], members: Sequence[Member]) -> list[int]:
    """Return the quota, reduced by the quota that members of other trees use beyond their own."""
    trees: dict[str, list[int]] = defaultdict(list)
    for index, member in enumerate(members):
        trees[member.root].append(index)
    result = list(quota)
    unused = {
        root: sum(quota[index] - members[index].used.get(fr, 0) for index in indexes) for root, indexes in trees.items()
    }
    excess = -sum(amount for amount in unused.values() if amount < 0)
    if len(trees) == 1 or not excess:
        return result
    roots = [root for root, amount in unused.items() if amount > 0]
    rest = scale([unused[root] for root in roots], max(0, sum(unused[root] for root in roots) - excess))
    for root, left in zip(roots, rest, strict=True):
        most = sum(quota[index] for index in trees[root]) - unused[root] + left
        for index, amount in zip(trees[root], scale([quota[index] for index in trees[root]], most), strict=True):
            result[index] = amount
    return result
