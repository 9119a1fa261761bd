"""Compute fair shares: how much each node of the quota tree borrows, and which head is served next.

The dominant resource share of a node is the largest ratio of the borrowed to the lendable amount of a resource, in
thousandths, divided by the weight of the node. The parent of the node defines what is lendable. Shares are exact
fractions: a share that is larger by one part in a billion is larger. Only status rounds, upwards.

A `Tournament` finds the next head. In each Cohort the children's nominees compete by the share that the child would
have with its nominee admitted; the winner is the nominee of the Cohort. A change below a node changes results only on
the path to the root. So finding the next winner costs the height of the tree, not the number of heads.

The rules are Kueue's (Kueue KEP-1714 fair sharing).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Literal, cast

from msgspec import Struct

from muster.api.config import FairSharing as FairSharingSettings
from muster.api.config.features import FeatureGates
from muster.queueing.model import FlavorResource, Usage, WorkloadInfo
from muster.queueing.quota.tree import Node
from muster.queueing.scheduling.childheap import ChildHeap, Key

Strategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]

# The value that status shows for an infinite share.
UNBOUNDED = (1 << 63) - 1

_NOTHING: Usage = {}


class FairSharing(Struct, frozen=True):
    """The settings of fair sharing.

    strategies: the rules by which a workload may preempt workloads of other ClusterQueues. The second is tried if the
    first does not free enough quota.
    within_nominal: whether a workload within the nominal quota of its queue may preempt any borrower, whatever the
    shares.
    prefer_nominal: whether a contender comes first in the tournament if its side borrows none of its requests.
    """

    strategies: tuple[Strategy, ...] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
    within_nominal: bool = True
    prefer_nominal: bool = True

    @classmethod
    def of(cls, fair: FairSharingSettings | None, features: FeatureGates) -> "FairSharing | None":
        """Return the fair sharing settings of a Configuration; None if fair sharing is off."""
        if fair is None:
            return None
        return cls(
            strategies=cast("tuple[Strategy, ...]", fair.preemption_strategies),
            within_nominal=features.is_enabled("FairSharingPreemptWithinNominal"),
            prefer_nominal=features.is_enabled("FairSharingPrioritizeNonBorrowing"),
        )


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """A dominant resource share. Shares compare by size, exactly.

    infinite: whether it is the share of a node of weight 0 that borrows. Two such shares compare by their value at
    weight 1.
    value: the share in thousandths.
    resource: the dominant resource, "" if there is none.
    borrowed: the flavors and resources that the node borrows. There may be some although the share is 0, if none of
    them is lendable.
    """

    infinite: bool = False
    value: Fraction = Fraction(0)
    resource: str = field(default="", compare=False)
    borrowed: frozenset[FlavorResource] = field(default=frozenset(), compare=False)

    @property
    def weighted(self) -> int:
        """The share in the form of the status field `weightedShare`."""
        return UNBOUNDED if self.infinite else ceil(self.value)

    def borrows_of(self, usage: Usage) -> bool:
        """Return whether the node borrows some of these flavors and resources."""
        return any(usage.get(fr, 0) > 0 for fr in self.borrowed)


_NO_SHARE = Share()


def share(node: Node, extra: Usage = _NOTHING) -> Share:
    """Return the share of the node with `extra` usage added.

    The share of a root is 0, because a root has no siblings.
    """
    return Shares().now(node, extra)


class Shares:
    """The shares of nodes while quota does not change. Each share is cached until usage changes below its node."""

    def __init__(self) -> None:
        self._known: dict[Node, Share] = {}
        self._lendable: dict[tuple[Node, str], int] = {}

    def of(self, node: Node) -> Share:
        """Return the share of the node, from the cache if possible."""
        cached = self._known.get(node)
        if cached is None:
            cached = self._known[node] = self.now(node)
        return cached

    def forget_shares(self, queue: Node) -> None:
        """Forget the cached shares that depend on a ClusterQueue whose usage changed."""
        for node in (queue, *queue.ancestors()):
            self._known.pop(node, None)

    def now(self, node: Node, extra: Usage = _NOTHING) -> Share:
        """Compute the share of the node with `extra` usage added to its current usage, without the cache."""
        parent = node.parent
        if parent is None:
            return _NO_SHARE
        borrowed: dict[FlavorResource, int] = {}
        for fr, quota in node.subtree.items():
            if (beyond := node.usage.get(fr, 0) + extra.get(fr, 0) - quota) > 0:
                borrowed[fr] = beyond
        if not borrowed:
            return _NO_SHARE
        ratio, resource = self._find_dominant(parent, borrowed)
        infinite = bool(ratio) and not node.weight
        value = ratio / node.weight if ratio and not infinite else ratio
        return Share(infinite, value, resource, frozenset(borrowed))

    def _find_dominant(self, parent: Node, borrowed: Usage) -> tuple[Fraction, str]:
        """Return the largest ratio of borrowed to lendable, and its resource; the first by name among equals."""
        best, dominant = Fraction(0), ""
        for resource in sorted({fr.resource for fr in borrowed}):
            if (lendable := self._sum_lendable(parent, resource)) > 0:
                amount = sum(beyond for fr, beyond in borrowed.items() if fr.resource == resource)
                if (ratio := Fraction(amount * 1000, lendable)) > best:
                    best, dominant = ratio, resource
        return best, dominant

    def _sum_lendable(self, parent: Node, resource: str) -> int:
        """Return the lendable amount of a resource in all flavors, if nothing were in use."""
        cached = self._lendable.get((parent, resource))
        if cached is None:
            cached = sum(parent.potential(fr) for fr in parent.root.subtree if fr.resource == resource)
            self._lendable[parent, resource] = cached
        return cached


class Contender(Struct, frozen=True, eq=False):
    """The head of a ClusterQueue in the tournament, with the usage that it would have.

    preemptor: whether the head waits for its victims to terminate.
    """

    queue: Node
    workload: WorkloadInfo
    usage: Usage
    preemptor: bool = False


class Tournament:
    """The choice of the next head by fair sharing.

    In each Cohort, the child wins whose share would be the lowest with its nominee admitted. Root Cohorts and
    ClusterQueues without a Cohort have no share: priority, then time, decide among their nominees. Two rules precede
    the share: heads that wait for their victims win; then, with `prefer_nominal`, heads that borrow nothing. When usage
    changes, the choice is made again.
    """

    def __init__(self, contenders: Iterable[Contender], fair: FairSharing) -> None:
        self._fair = fair
        self._shares = Shares()
        self._nominees: dict[Node, Contender] = {}
        self._children = ChildHeap()
        self._last: Node | None = None
        for contender in contenders:
            self.enter(contender)

    def enter(self, contender: Contender) -> None:
        """Enter the head of a ClusterQueue, replacing its former head."""
        self._nominees[contender.queue] = contender
        self.recompute_results(contender.queue)

    def leave(self, queue: Node) -> None:
        """Remove the head of a ClusterQueue from the competition."""
        if self._nominees.pop(queue, None) is not None:
            self.recompute_results(queue)

    def pop(self) -> Contender | None:
        """Remove and return the winner; None if no head is left.

        Until the next call, the caller may change the usage of the winner's ClusterQueue. It reports other changes with
        `recompute_results`.
        """
        if self._last is not None:
            self.recompute_results(self._last)
        root = self._children.best(None)
        if root is None:
            self._last = None
            return None
        winner = self._nominees[root]
        self._last = winner.queue
        del self._nominees[winner.queue]
        self.recompute_results(winner.queue)
        return winner

    def recompute_results(self, queue: Node) -> None:
        """Recompute the results that depend on a ClusterQueue whose usage or head changed."""
        for node in (queue, *queue.ancestors()):
            if not node.is_queue:
                best = self._children.best(node)
                if best is None:
                    self._nominees.pop(node, None)
                else:
                    self._nominees[node] = self._nominees[best]
            nominee = self._nominees.get(node)
            self._children.put(node, None if nominee is None else self._make_key(node, nominee))

    def _make_key(self, node: Node, nominee: Contender) -> Key:
        """Return the key by which the children of a Cohort compete, the lowest first."""
        nominee.queue.add(nominee.usage)
        try:
            after = self._shares.now(node)
        finally:
            nominee.queue.remove(nominee.usage)
        workload = nominee.workload
        return (
            not nominee.preemptor,
            self._fair.prefer_nominal and after.borrows_of(nominee.usage),
            after,
            -workload.priority,
            workload.queued,
            workload.uid,
        )
