"""Fair sharing: how much of what can be lent each node of the tree borrows, and whose turn it is.

The dominant resource share of a node is the largest of what it borrows of a resource divided by what can be lent of it
by its parent, in thousandths, divided by the weight of the node. All of it is exact: a share that is larger by one part
in a billion is larger. Only status rounds, upwards.

A `Tournament` finds whose turn it is: in each Cohort the children's nominees compete by the share that the child would
have with its nominee admitted, and the winner is the nominee of the Cohort. A change below a node changes the results
on the way to the root only, so the next winner costs the height of the tree, not the number of those who compete.

The rules are Kueue's (KEP-1714 fair sharing).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Literal

from msgspec import Struct

from muster.queueing.model import FlavorResource, Usage, WorkloadInfo
from muster.queueing.quota.tree import Node
from muster.queueing.scheduling.childheap import ChildHeap, Key

Strategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]

# What status shows for a share without bound.
UNBOUNDED = (1 << 63) - 1

_NOTHING: Usage = {}


class FairSharing(Struct, frozen=True):
    """That fair sharing is on, and how it preempts.

    strategies: by which rules a workload may displace one of another ClusterQueue; the second is tried if the first
    does not free enough.
    within_nominal: who stays within its nominal quota may displace any borrower, whatever the shares.
    prefer_nominal: whose share does not grow by borrowing what it asks for is first in the tournament.
    prefer_preemptors: who waits for victims to go is first in the tournament (upstream: off unless asked for).
    """

    strategies: tuple[Strategy, ...] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
    within_nominal: bool = True
    prefer_nominal: bool = True
    prefer_preemptors: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """A dominant resource share; they compare by size, exactly.

    infinite: of a node of weight 0 that borrows; two of these compare by what they would be at weight 1.
    value: in thousandths. resource: the dominant one, "" if there is none.
    borrowed: of what the node uses more than its own. It may be that and still have the share 0: if nothing can be
    lent of it.
    """

    infinite: bool = False
    value: Fraction = Fraction(0)
    resource: str = field(default="", compare=False)
    borrowed: frozenset[FlavorResource] = field(default=frozenset(), compare=False)

    @property
    def weighted(self) -> int:
        """As status shows it (`weightedShare`)."""
        return UNBOUNDED if self.infinite else ceil(self.value)

    def borrows_of(self, usage: Usage) -> bool:
        """Whether the node borrows some of this."""
        return any(usage.get(fr, 0) > 0 for fr in self.borrowed)


_NO_SHARE = Share()


def share(node: Node, extra: Usage = _NOTHING) -> Share:
    """Of the node, if it used that much more. No sibling has a larger claim on a root, so its share is 0."""
    return Shares().now(node, extra)


class Shares:
    """The shares of nodes while quota does not change, each computed once until usage changes below it."""

    def __init__(self) -> None:
        self._known: dict[Node, Share] = {}
        self._lendable: dict[tuple[Node, str], int] = {}

    def of(self, node: Node) -> Share:
        """Its share."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = self.now(node)
        return known

    def changed(self, queue: Node) -> None:
        """The usage of the ClusterQueue is another."""
        for node in (queue, *queue.ancestors()):
            self._known.pop(node, None)

    def now(self, node: Node, extra: Usage = _NOTHING) -> Share:
        """Its share if it used that much more, and by its present usage, which may be a trial."""
        parent = node.parent
        if parent is None:
            return _NO_SHARE
        borrowed: dict[FlavorResource, int] = {}
        for fr, quota in node.subtree.items():
            if (beyond := node.usage.get(fr, 0) + extra.get(fr, 0) - quota) > 0:
                borrowed[fr] = beyond
        if not borrowed:
            return _NO_SHARE
        ratio, resource = self._dominant(parent, borrowed)
        infinite = bool(ratio) and not node.weight
        value = ratio / node.weight if ratio and not infinite else ratio
        return Share(infinite, value, resource, frozenset(borrowed))

    def _dominant(self, parent: Node, borrowed: Usage) -> tuple[Fraction, str]:
        """The largest ratio of borrowed to lendable, and of which resource; the first by name among equals."""
        best, dominant = Fraction(0), ""
        for resource in sorted({fr.resource for fr in borrowed}):
            if (lendable := self._lendable_of(parent, resource)) > 0:
                amount = sum(beyond for fr, beyond in borrowed.items() if fr.resource == resource)
                if (ratio := Fraction(amount * 1000, lendable)) > best:
                    best, dominant = ratio, resource
        return best, dominant

    def _lendable_of(self, parent: Node, resource: str) -> int:
        """In all flavors, if nothing were in use."""
        known = self._lendable.get((parent, resource))
        if known is None:
            known = sum(parent.potential(fr) for fr in parent.root.subtree if fr.resource == resource)
            self._lendable[parent, resource] = known
        return known


class Contender(Struct, frozen=True, eq=False):
    """The head of a ClusterQueue, with what it would use.

    preemptor: it waits for its victims to go.
    """

    queue: Node
    workload: WorkloadInfo
    usage: Usage
    preemptor: bool = False


class Tournament:
    """Whose turn it is, again and again, while usage changes.

    Trees of Cohorts do not compete by share; among their winners, and among ClusterQueues without a Cohort, it is
    priority and time that decide.
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
        """Another head competes (one for each ClusterQueue)."""
        self._nominees[contender.queue] = contender
        self.changed(contender.queue)

    def leave(self, queue: Node) -> None:
        """The head of the ClusterQueue no longer competes."""
        if self._nominees.pop(queue, None) is not None:
            self.changed(queue)

    def pop(self) -> Contender | None:
        """The winner, who no longer competes; None at the end.

        Until the next call the caller may change what the winner's ClusterQueue uses; other changes it has to tell.
        """
        if self._last is not None:
            self.changed(self._last)
        root = self._children.best(None)
        if root is None:
            self._last = None
            return None
        winner = self._nominees[root]
        self._last = winner.queue
        del self._nominees[winner.queue]
        self.changed(winner.queue)
        return winner

    def changed(self, queue: Node) -> None:
        """Usage of the ClusterQueue, or its head, is another: play again what depends on it."""
        for node in (queue, *queue.ancestors()):
            if not node.is_queue:
                best = self._children.best(node)
                if best is None:
                    self._nominees.pop(node, None)
                else:
                    self._nominees[node] = self._nominees[best]
            nominee = self._nominees.get(node)
            self._children.put(node, None if nominee is None else self._key(node, nominee))

    def _key(self, node: Node, nominee: Contender) -> Key:
        """What decides between the children of a Cohort, the lowest first."""
        nominee.queue.add(nominee.usage)
        try:
            after = self._shares.now(node)
        finally:
            nominee.queue.remove(nominee.usage)
        workload = nominee.workload
        return (
            self._fair.prefer_preemptors and not nominee.preemptor,
            self._fair.prefer_nominal and after.borrows_of(nominee.usage),
            after,
            -workload.priority,
            workload.queued,
            workload.uid,
        )
