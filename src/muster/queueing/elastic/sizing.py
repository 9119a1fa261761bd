"""Elastic workloads when quota is short: who gets smaller, so that a waiting workload fits.

A waiting workload that is elastic starts smaller. For any other, elastic workloads of no higher priority that hold
quota in its tree shrink, if that suffices and by no more than it needs; those of low priority, and among equals the
young, lose first. Those of another ClusterQueue give back only what that one has borrowed, and only to one that stays
within the quota of its own: so a workload that shrank has nothing to reclaim in turn. Growth is not decided here: one
that wants more queues for it, behind the others (`growth.growth`); `affordable` tells how much of it can be had.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from muster.queueing.model import FlavorResource, Usage, WorkloadInfo
from muster.queueing.quota.tree import Node, Tree


class Elastic(Struct, frozen=True):
    """A workload that holds quota and may be made smaller.

    size: how many pods were granted. least: with how many it goes on. pod: what each of them uses.
    """

    key: str
    queue: str
    priority: int
    created: datetime
    size: int
    least: int
    pod: Usage

    def usage(self, pods: int) -> dict[FlavorResource, int]:
        """Of so many of its pods."""
        return {fr: amount * pods for fr, amount in self.pod.items()}


def smaller(
    tree: Tree,
    waiting: WorkloadInfo,
    least: int | None,
    elastic: Sequence[Elastic],
    fits: Callable[[WorkloadInfo], bool],
) -> Mapping[str, int]:
    """New sizes, by key; empty if none would help. The tree is the same afterwards.

    least: with how few pods the waiting one starts if it is elastic. fits: whether a workload could be admitted now.
    """
    if least is not None and len(waiting.podsets) == 1:
        size = _largest(least, waiting.podsets[0].count - 1, lambda size: fits(_of_size(waiting, size)))
        if size is not None:
            return {waiting.key: size}
        waiting = _of_size(waiting, min(least, waiting.podsets[0].count))
    root = tree.queues[waiting.queue].root
    candidates = [
        one
        for one in sorted(elastic, key=lambda one: (one.priority, -one.created.timestamp(), one.key))
        if one.priority <= waiting.priority and one.key != waiting.key and tree.queues[one.queue].root is root
    ]
    return _shrunk(tree, waiting, candidates, fits)


def affordable(growth: WorkloadInfo, fits: Callable[[WorkloadInfo], bool]) -> int:
    """How many of the pods that a running workload is short of (`growth.growth`) there is quota for now."""
    return _largest(1, growth.podsets[0].count, lambda count: fits(_of_size(growth, count))) or 0


class _Reclaim(Struct, frozen=True):
    """What a waiting workload may take from elastic ones. asked: the quotas that it would use. within: only its own."""

    queue: str
    asked: frozenset[FlavorResource]
    within: bool

    def least(self, node: Node, one: Elastic) -> int:
        """How far that one, of the ClusterQueue `node`, may shrink as things are; its size if not at all."""
        if one.queue == self.queue:
            return one.least
        lent = [
            (node.usage.get(fr, 0) - node.subtree.get(fr, 0)) // amount
            for fr, amount in one.pod.items()
            if amount and fr in self.asked and node.borrows(fr)
        ]
        return max(one.least, one.size - min(lent)) if lent and self.within else one.size


def _reclaim(node: Node, waiting: WorkloadInfo) -> _Reclaim:
    wanted: dict[str, int] = {}
    for podset in waiting.podsets:
        for resource, amount in podset.requests.items():
            wanted[resource] = wanted.get(resource, 0) + amount * podset.count
    asked = frozenset(fr for fr in node.subtree if wanted.get(fr.resource))
    enough = {fr.resource for fr in asked if not node.borrows(fr, wanted[fr.resource])}
    return _Reclaim(node.name, asked, all(fr.resource in enough for fr in asked))


def _shrunk(
    tree: Tree, waiting: WorkloadInfo, candidates: Sequence[Elastic], fits: Callable[[WorkloadInfo], bool]
) -> Mapping[str, int]:
    """All shrink as far as they may until it fits; then the worthiest get back first what they can keep."""
    reclaim = _reclaim(tree.queues[waiting.queue], waiting)
    sizes: dict[str, int] = {}
    least: dict[str, int] = {}
    shrunk: list[Elastic] = []
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

            def kept(size: int, one: Elastic = one, node: Node = node, low: int = low) -> bool:
                more = one.usage(size - low)
                node.add(more)
                answer = fits(waiting)
                node.remove(more)
                return answer

            size = _largest(low, one.size, kept) or low
            node.add(one.usage(size - low))
            sizes[one.key] = size
        return {one.key: sizes[one.key] for one in shrunk if sizes[one.key] < one.size}
    finally:
        for one in shrunk:
            tree.queues[one.queue].add(one.usage(one.size - sizes[one.key]))


def _of_size(workload: WorkloadInfo, size: int) -> WorkloadInfo:
    return replace(workload, podsets=(replace(workload.podsets[0], count=size),))


def _largest(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """The largest number from `low` to `high` for which it holds, where what holds for one holds for the smaller."""
    first_not = bisect_left(range(low, high + 1), True, key=lambda number: not holds(number))
    return low + first_not - 1 if first_not else None
