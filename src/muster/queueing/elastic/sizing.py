"""Decide which elastic workloads shrink when quota is short, so that a waiting workload fits.

- A waiting workload that is elastic itself starts smaller.
- For any other waiting workload, running elastic workloads of the same tree shrink if that suffices. They have no
  higher priority, and shrink no further than needed.
- Workloads of low priority shrink first; of equal priority, the youngest.
- A workload of another ClusterQueue shrinks only by the quota that its queue borrows, and only for a queue that stays
  within its own quota. So a workload that shrank can never reclaim that quota in turn.

Growth is not decided here: a workload waits in its queue to grow (`growth.find_growth`). `count_affordable` returns how
much of a growth fits.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from muster.api.kueue.names import EXCEEDS_MAX_QUOTA, WAITING_FOR_QUOTA
from muster.queueing.model import FlavorResource, Usage, WorkloadInfo
from muster.queueing.pending.queue import Parked
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.quota.trial import assume_usage

# The reasons why workloads wait for which others may shrink.
SHORT_REASONS = frozenset((WAITING_FOR_QUOTA, EXCEEDS_MAX_QUOTA))


class ElasticWorkload(Struct, frozen=True):
    """An elastic workload that holds quota and may shrink.

    size: the number of granted pods.
    least: the minimum number of pods.
    pod: the usage of one pod.
    """

    key: str
    queue: str
    priority: int
    created: datetime
    size: int
    least: int
    pod: Usage

    def usage(self, pods: int) -> dict[FlavorResource, int]:
        """Return the quota that the workload uses with this number of pods."""
        return {fr: amount * pods for fr, amount in self.pod.items()}


def describe_holder(holder: WorkloadInfo, size: int, least: int | None) -> ElasticWorkload | None:
    """Return a workload with quota as an `ElasticWorkload`; None if it may not shrink.

    size: the number of granted pods.
    least: the minimum number; None if the workload is not elastic.
    """
    usage = holder.usage or {}
    if holder.evicted or len(holder.podsets) != 1 or least is None or size <= least:
        return None
    if any(amount % size for amount in usage.values()):
        return None
    pod = {fr: amount // size for fr, amount in usage.items()}
    return ElasticWorkload(holder.key, holder.queue, holder.priority, holder.created, size, least, pod)


def list_claims(tree: Tree, parked: Mapping[str, Parked]) -> list[tuple[Node, Usage]]:
    """Return, for each ClusterQueue, the usage that its head claims.

    Growth of elastic workloads may not use these amounts.

    parked: the parked heads, by ClusterQueue.
    """
    return [(tree.queues[name], head.claim) for name, head in parked.items() if name in tree.queues]


def find_smaller_sizes(
    tree: Tree,
    waiting: WorkloadInfo,
    least: int | None,
    elastic: Sequence[ElasticWorkload],
    fits: Callable[[WorkloadInfo], bool],
) -> Mapping[str, int]:
    """Return new sizes of elastic workloads, by key, with which the waiting workload fits; empty if no sizes suffice.

    The tree is unchanged.

    least: the minimum number of pods with which the waiting workload starts; None if it is not elastic.
    elastic: the running workloads that may shrink.
    fits: returns whether a workload could be admitted now.
    """
    if least is not None and len(waiting.podsets) == 1:
        size = _find_largest(least, waiting.podsets[0].count - 1, lambda size: fits(_resize(waiting, size)))
        if size is not None:
            return {waiting.key: size}
        waiting = _resize(waiting, min(least, waiting.podsets[0].count))
    root = tree.queues[waiting.queue].root
    candidates = [
        one
        for one in sorted(elastic, key=lambda one: (one.priority, -one.created.timestamp(), one.key))
        if one.priority <= waiting.priority and one.key != waiting.key and tree.queues[one.queue].root is root
    ]
    return _shrink(tree, waiting, candidates, fits)


def count_affordable(growth: WorkloadInfo, fits: Callable[[WorkloadInfo], bool]) -> int:
    """Return for how many pods of a growth (`growth.find_growth`) quota is free now.

    fits: returns whether a workload could be admitted now.
    """
    return _find_largest(1, growth.podsets[0].count, lambda count: fits(_resize(growth, count))) or 0


class _ReclaimLimits(Struct, frozen=True):
    """The limits on what a waiting workload may reclaim from elastic workloads.

    requested: the quotas that the waiting workload would use.
    within: whether the waiting workload stays within the quota of its own queue.
    """

    queue: str
    requested: frozenset[FlavorResource]
    within: bool

    def least(self, node: Node, workload: ElasticWorkload) -> int:
        """Return the size to which an elastic workload of the ClusterQueue `node` may shrink now.

        Return its current size if it may not shrink.
        """
        if workload.queue == self.queue:
            return workload.least
        reclaimable = [
            (node.usage.get(fr, 0) - node.subtree.get(fr, 0)) // amount
            for fr, amount in workload.pod.items()
            if amount and fr in self.requested and node.borrows(fr)
        ]
        return max(workload.least, workload.size - min(reclaimable)) if reclaimable and self.within else workload.size


def _find_reclaim_limits(node: Node, waiting: WorkloadInfo) -> _ReclaimLimits:
    requests: dict[str, int] = {}
    for podset in waiting.podsets:
        for resource, amount in podset.requests.items():
            requests[resource] = requests.get(resource, 0) + amount * podset.count
    requested = frozenset(fr for fr in node.subtree if requests.get(fr.resource))
    enough = {fr.resource for fr in requested if not node.borrows(fr, requests[fr.resource])}
    return _ReclaimLimits(node.name, requested, all(fr.resource in enough for fr in requested))


def _shrink(
    tree: Tree, waiting: WorkloadInfo, candidates: Sequence[ElasticWorkload], fits: Callable[[WorkloadInfo], bool]
) -> Mapping[str, int]:
    """Shrink candidates until the waiting workload fits; then grow them back as far as possible.

    The candidates of the highest priority grow back first. Return the new sizes.
    """
    reclaim = _find_reclaim_limits(tree.queues[waiting.queue], waiting)
    sizes: dict[str, int] = {}
    least: dict[str, int] = {}
    shrunk: list[ElasticWorkload] = []
    try:
        for one in candidates:
            node = tree.queues[one.queue]
            if (size := reclaim.least(node, one)) >= one.size:
                continue
            node.remove(one.usage(one.size - size))
            sizes[one.key] = least[one.key] = size
            shrunk.append(one)
            if fits(waiting):
                break
        else:
            return {}
        for one in reversed(shrunk):
            node, low = tree.queues[one.queue], least[one.key]

            def is_enough(size: int, workload: ElasticWorkload = one, node: Node = node, low: int = low) -> bool:
                with assume_usage(more=[(node, workload.usage(size - low))]):
                    return fits(waiting)

            size = _find_largest(low, one.size, is_enough) or low
            node.add(one.usage(size - low))
            sizes[one.key] = size
        return {one.key: sizes[one.key] for one in shrunk if sizes[one.key] < one.size}
    finally:
        for one in shrunk:
            tree.queues[one.queue].add(one.usage(one.size - sizes[one.key]))


def _resize(workload: WorkloadInfo, size: int) -> WorkloadInfo:
    return replace(workload, podsets=(replace(workload.podsets[0], count=size),))


def _find_largest(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """Return the largest number in `low..high` for which `holds` is true; None if there is none.

    `holds` is monotonic: once false, it is false for all larger numbers.
    """
    first_not = bisect_left(range(low, high + 1), True, key=lambda number: not holds(number))
    return low + first_not - 1 if first_not else None
