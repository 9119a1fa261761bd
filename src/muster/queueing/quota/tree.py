"""Keep the tree of quota: ClusterQueues and Cohorts, their limits, and their usage.

The arithmetic is Kueue's (Kueue KEP-79 hierarchical cohorts, Kueue KEP-1224 lending limits). The part of a node's quota
that it does not lend is called `local`. Usage of the node beyond that part also counts in its parent.

So usage is always a function of the usage of the ClusterQueues at the leaves, and adding and then removing an amount
restores the old state. A decision may try changes in the tree itself, and `trial.assume_usage` undoes them.

A change of one node changes only that node and its ancestors. Amounts may be negative if quota was reduced below the
usage; no workload is evicted because of that.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import takewhile
from typing import NamedTuple

from muster.queueing.model import CohortSpec, FlavorResource, QueueSpec, Quota, Usage, WorkloadInfo
from muster.queueing.quota.holders import Holders
from muster.queueing.quota.tallies import Tallies
from muster.queueing.topology.ledger import CapacityLedger
from muster.queueing.topology.nodelabels import NodeLabels

_NOTHING = Quota(0)

# The available amount if there is no limit; it exceeds every real amount.
UNLIMITED = 1 << 62


class Node:
    """A ClusterQueue or a Cohort in the quota tree. Only `Tree` changes it.

    children: Cohorts first, then ClusterQueues, each by name.
    subtree: the quota of the node and the quota that the nodes below lend to it.
    local: the part of `subtree` that the node does not lend.
    usage: the used amounts of `subtree`.
    over: the children that borrow, by flavor and resource; see `borrowers`.
    workloads: the workloads that hold quota in a ClusterQueue, by key.
    held: the same workloads in the order of preemption.
    tallies: the number and the usage of these workloads.
    height: 0 for a ClusterQueue, 1 for a Cohort with only ClusterQueues below, and so on.
    """

    __slots__ = (
        "children",
        "height",
        "held",
        "local",
        "name",
        "over",
        "parent",
        "quotas",
        "spec",
        "subtree",
        "tallies",
        "usage",
        "workloads",
    )

    def __init__(self, name: str, spec: QueueSpec | CohortSpec | None = None) -> None:
        self.name = name
        self.spec = spec
        self.quotas: Mapping[FlavorResource, Quota] = spec.quotas if spec is not None else {}
        self.parent: Node | None = None
        self.children: dict[tuple[bool, str], Node] = {}
        self.subtree: dict[FlavorResource, int] = {}
        self.usage: dict[FlavorResource, int] = {}
        self.height = 0 if isinstance(spec, QueueSpec) else 1
        self.local: dict[FlavorResource, int] = {}
        self.over: dict[FlavorResource, set[Node]] = {}
        self.workloads: dict[str, WorkloadInfo] = {}
        self.held = Holders()
        self.tallies = Tallies()

    @property
    def is_queue(self) -> bool:
        """Whether the node is a ClusterQueue."""
        return self.height == 0

    @property
    def policy(self) -> QueueSpec:
        """The specification of a ClusterQueue. Fails for a Cohort."""
        assert isinstance(self.spec, QueueSpec), f"{self.name} is a Cohort"
        return self.spec

    @property
    def weight(self) -> Fraction:
        """The weight of the node among its siblings in fair sharing; 1 by default."""
        return self.spec.weight if self.spec is not None else Fraction(1)

    @property
    def root(self) -> "Node":
        """The root of the node's tree, which may be the node itself."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def ancestors(self) -> Iterator["Node"]:
        """Yield the node's Cohort, the parent of that Cohort, and so on."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def queues(self) -> Iterator["Node"]:
        """Yield the ClusterQueues at or below the node, in a stable order."""
        nodes = [self]
        while nodes:
            node = nodes.pop()
            if node.is_queue:
                yield node
            elif node.children:
                nodes.extend(reversed(node.children.values()))

    def cohorts(self) -> Iterator["Node"]:
        """Return the Cohorts directly below the node, in order."""
        return takewhile(lambda child: not child.is_queue, self.children.values())

    def borrowers(self, frs: Iterable[FlavorResource]) -> list["Node"]:
        """Return the children that borrow any of these flavors and resources, in order.

        Only the children that borrow are visited.
        """
        over = self.over
        borrowers = {node for fr in frs if fr in over for node in over[fr]}
        return sorted(borrowers, key=lambda node: (node.is_queue, node.name))

    def quota(self, fr: FlavorResource) -> Quota:
        """Return the nominal quota and the limits in the node's specification; 0 without limits if it has none."""
        return self.quotas.get(fr, _NOTHING)

    def available(self, fr: FlavorResource) -> int:
        """Return how much more the node may use now; negative if usage exceeds the quota."""
        node, free = self, 0  # free: the amount that the node may use before usage counts in its parent
        bounds = []
        while (parent := node.parent) is not None:
            usage, local = node.usage.get(fr, 0), node.local.get(fr, 0)
            free += max(0, local - usage)
            if (limit := node.quota(fr).borrowing) is not None:
                bounds.append(free + node.subtree.get(fr, 0) - max(usage, local) + limit)
            node = parent
        bounds.append(free + node.subtree.get(fr, 0) - node.usage.get(fr, 0))
        return min(bounds)

    def potential(self, fr: FlavorResource) -> int:
        """Return how much the node could use if no quota were in use."""
        node, local = self, 0
        bounds = []
        while (parent := node.parent) is not None:
            if (limit := node.quota(fr).borrowing) is not None:
                bounds.append(local + node.subtree.get(fr, 0) + limit)
            local += node.local.get(fr, 0)
            node = parent
        bounds.append(local + node.subtree.get(fr, 0))
        return min(bounds)

    def fits(self, usage: Usage) -> bool:
        """Return whether the node may use these additional amounts now."""
        return all(amount <= self.available(fr) for fr, amount in usage.items() if amount)

    def borrows(self, fr: FlavorResource, more: int = 0) -> bool:
        """Return whether the node uses more than `subtree` after `more` is added."""
        return self.usage.get(fr, 0) + more > self.subtree.get(fr, 0)

    def local_available(self, fr: FlavorResource) -> int:
        """Return how much more the node may use before its usage counts in its parent."""
        return max(0, self.local.get(fr, 0) - self.usage.get(fr, 0))

    def add(self, usage: Usage) -> None:
        """Add usage to the node. The amount that exceeds the node's `local` counts in its parent too, and so on upward.

        A node whose usage now exceeds its `subtree` borrows, and is recorded in `over` of its parent.
        """
        for fr, amount in usage.items():
            node: Node | None = self
            while node is not None and amount > 0:
                beyond = amount - node.local_available(fr)
                used, quota, parent = node.usage.get(fr, 0), node.subtree.get(fr, 0), node.parent
                node.usage[fr] = used + amount
                if used <= quota < used + amount and parent is not None:
                    parent.over.setdefault(fr, set()).add(node)
                node, amount = parent, beyond

    def remove(self, usage: Usage) -> None:
        """Remove usage from the node and its ancestors, as the inverse of `add`."""
        for fr, amount in usage.items():
            node: Node | None = self
            while node is not None and amount > 0:
                used, quota, parent = node.usage.get(fr, 0), node.subtree.get(fr, 0), node.parent
                beyond = min(amount, used - node.local.get(fr, 0))
                node.usage[fr] = used - amount
                if used > quota >= used - amount and parent is not None:
                    parent.over[fr].discard(node)
                node, amount = parent, beyond


def _insert(children: dict[tuple[bool, str], Node], key: tuple[bool, str], node: Node) -> None:
    """Insert a child in sorted order, so that decisions do not depend on the order of events."""
    if children and key > next(reversed(children)):
        children[key] = node
        return
    after = {name: children.pop(name) for name in list(children) if name > key}
    children[key] = node
    children.update(after)


def _remove(parent: Node, key: tuple[bool, str]) -> None:
    child = parent.children.pop(key)
    for nodes in parent.over.values():
        nodes.discard(child)


def _recompute(node: Node) -> None:
    """Compute a node's quota, and a Cohort's usage, from the node's specification and children."""
    node.subtree = {fr: quota.nominal for fr, quota in node.quotas.items()}
    if not node.is_queue:
        node.usage = {}
        for child in node.children.values():
            _add_share(node, _compute_share(child))
        node.height = _compute_height(node)
    _compute_local(node)
    _mark(node)


def _mark(node: Node) -> None:
    """Record in the node's parent which flavors and resources the node borrows."""
    if node.parent is None:
        return
    over = node.parent.over
    for fr in {*over, *node.usage}:
        if node.borrows(fr):
            over.setdefault(fr, set()).add(node)
        elif fr in over:
            over[fr].discard(node)


class _Share(NamedTuple):
    """The contribution of a node to its parent: the quota that it lends, and its usage beyond `local`."""

    lent: Mapping[FlavorResource, int]
    borrowed: Mapping[FlavorResource, int]


def _compute_share(node: Node) -> _Share:
    local = node.local
    return _Share(
        {fr: amount - local.get(fr, 0) for fr, amount in node.subtree.items()},
        {fr: max(0, amount - local.get(fr, 0)) for fr, amount in node.usage.items()},
    )


def _add_share(node: Node, share: _Share, sign: int = 1) -> None:
    for fr, amount in share.lent.items():
        node.subtree[fr] = node.subtree.get(fr, 0) + sign * amount
    for fr, amount in share.borrowed.items():
        node.usage[fr] = node.usage.get(fr, 0) + sign * amount


def _compute_height(node: Node) -> int:
    return 1 + max((child.height for child in node.cohorts()), default=0)


def _compute_local(node: Node) -> None:
    """Compute the part of a node's quota that it does not lend."""
    lending = {fr: limit for fr in node.subtree if (limit := node.quota(fr).lending) is not None}
    node.local = {fr: max(0, node.subtree[fr] - limit) for fr, limit in lending.items()}


class Tree:
    """All ClusterQueues and Cohorts, with their quotas and usage.

    A Cohort that other objects name although it does not exist is part of the tree, without quota of its own.
    """

    def __init__(self) -> None:
        self.unready: dict[str, WorkloadInfo] = {}  # by key, workloads that hold quota and whose pods are not ready
        self.queues: dict[str, Node] = {}
        self.cohorts: dict[str, Node] = {}
        self._families: dict[str, dict[str, WorkloadInfo]] = {}  # variants that hold quota, by parent and key
        self._holding: dict[str, Node] = {}  # the ClusterQueue in which each workload holds quota, by workload key
        self._cut: dict[str, str] = {}  # Cohorts whose parent would close a circle, with that parent
        self.ledger = CapacityLedger()  # the topology domains that workloads occupy
        self.node_labels = NodeLabels()

    def set_queue(self, spec: QueueSpec) -> Node:
        """Add or change a ClusterQueue, and keep its usage; return its node."""
        node = self.queues.get(spec.name)
        if node is None:
            node = self.queues[spec.name] = Node(spec.name, spec)
        elif node.spec == spec:
            return node
        node.spec, node.quotas = spec, spec.quotas
        self._attach(node, spec.cohort)
        return node

    def remove_queue(self, name: str) -> None:
        """Remove a ClusterQueue and its usage."""
        if (node := self.queues.pop(name, None)) is not None:
            for key, workload in node.workloads.items():
                del self._holding[key]
                self.unready.pop(key, None)
                self._leave_family(workload)
                self.ledger.give(workload.places)
            self._attach(node, "")

    def hold(self, workload: WorkloadInfo) -> None:
        """Count a workload's quota (`usage`) in its ClusterQueue, replacing the workload's earlier state."""
        self.release(workload)
        node = self._holding[workload.key] = self.queues[workload.queue]
        node.workloads[workload.key] = workload
        node.held.add(workload)
        node.tallies.add(workload)
        if not workload.ready:
            self.unready[workload.key] = workload
        if workload.family:
            self._families.setdefault(workload.family, {})[workload.key] = workload
        node.add(workload.usage or {})
        if workload.places:
            self.ledger.take(workload.places)

    def holder(self, key: str) -> WorkloadInfo | None:
        """Return the workload with this key; None if it holds no quota."""
        node = self._holding.get(key)
        return node.workloads[key] if node is not None else None

    def release(self, workload: WorkloadInfo) -> None:
        """Remove a workload's usage from whichever ClusterQueue it is in; do nothing if it holds no quota."""
        if (node := self._holding.pop(workload.key, None)) is not None:
            holder = node.workloads.pop(workload.key)
            node.held.discard(holder)
            node.tallies.discard(holder)
            self.unready.pop(workload.key, None)
            self._leave_family(holder)
            node.remove(holder.usage or {})
            if holder.places:
                self.ledger.give(holder.places)

    def siblings(self, workload: WorkloadInfo) -> list[WorkloadInfo]:
        """Return the other variants of the workload's parent that hold quota."""
        return [one for one in self._families.get(workload.family, {}).values() if one.key != workload.key]

    def _leave_family(self, workload: WorkloadInfo) -> None:
        if (family := self._families.get(workload.family)) is not None:
            family.pop(workload.key, None)
            if not family:
                del self._families[workload.family]

    def set_cohort(self, spec: CohortSpec) -> Node:
        """Add or change a Cohort; return its node."""
        node = self._ensure_cohort(spec.name)
        node.spec, node.quotas = spec, spec.quotas
        self._attach(node, spec.parent)
        self._reattach_cut()
        return node

    def remove_cohort(self, name: str) -> None:
        """Remove the quota of a Cohort. While a queue or a Cohort names it, it remains without quota."""
        node = self.cohorts.get(name)
        if node is None:
            return
        node.spec, node.quotas = None, {}
        self._cut.pop(name, None)
        self._attach(node, "")
        self._drop_if_unused(node)
        self._reattach_cut()

    def is_in_circle(self, node: Node) -> bool:
        """Return whether the Cohorts above the node name each other as parents in a circle.

        No workload is admitted there.
        """
        return node.root.name in self._cut and not node.root.is_queue

    def _ensure_cohort(self, name: str) -> Node:
        return self.cohorts.setdefault(name, Node(name))

    def _attach(self, node: Node, cohort: str) -> None:
        """Make a node the child of a Cohort, or a root if `cohort` is "", and update its old and new ancestors."""
        old = node.parent
        key = (node.is_queue, node.name)
        if old is not None and old.name != cohort:
            _remove(old, key)
        node.parent = self._ensure_cohort(cohort) if cohort else None
        if not node.is_queue:
            self._cut.pop(node.name, None)
            if node.parent is not None and (node.parent is node or node in node.parent.ancestors()):
                self._cut[node.name] = cohort
                node.parent = None
                if old is not None and key in old.children:
                    _remove(old, key)
        counted = _compute_share(node) if old is not None and old is node.parent else _Share({}, {})
        if node.parent is not None and key not in node.parent.children:
            _insert(node.parent.children, key, node)
        _recompute(node)
        self._update_ancestors(node, counted)
        if old is not None and old is not node.parent:
            before = _compute_share(old)
            _recompute(old)
            self._update_ancestors(old, before)
            self._drop_if_unused(old)

    def _reattach_cut(self) -> None:
        """Attach Cohorts to their parents again that were detached because of a circle that no longer exists."""
        for name, parent in list(self._cut.items()):
            self._attach(self.cohorts[name], parent)

    def _update_ancestors(self, node: Node, before: _Share) -> None:
        """Update the ancestors of a node whose share changed, without visiting its siblings.

        before: the share of the node that its parent counted before.
        """
        while (parent := node.parent) is not None:
            counted, after = _compute_share(parent), _compute_share(node)
            if before.lent.keys() <= after.lent.keys():
                _add_share(parent, before, -1)
                _add_share(parent, after)
                parent.height = _compute_height(parent)
                _compute_local(parent)
                _mark(parent)
            else:
                _recompute(parent)  # a resource that no queue has any more must not be listed
            node, before = parent, counted

    def _drop_if_unused(self, cohort: Node) -> None:
        named = cohort.children or cohort.name in self._cut.values()
        if cohort.spec is None and not named and cohort.parent is None:
            self.cohorts.pop(cohort.name, None)
