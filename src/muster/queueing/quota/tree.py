"""The tree of quota: ClusterQueues under Cohorts under Cohorts, what each may use, borrow and lend, and
what each uses.

The arithmetic is Kueue's (KEP-79 hierarchical cohorts, KEP-1224 lending limits). Of the quota of a node, the part that
it does not lend is its own (`local`); what it uses beyond that counts in its parent. So usage is always a function of
what the ClusterQueues at the leaves use, and adding and then removing an amount leaves no trace: a decision may try
things out in the tree itself, as long as it undoes them.

A change of one node touches that node and its ancestors. Amounts may be below zero where quota was cut under what is
in use; no workload is made to give back for that.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import takewhile
from typing import NamedTuple

from muster.queueing.model import CohortSpec, FlavorResource, QueueSpec, Quota, Usage, WorkloadInfo
from muster.queueing.quota.holders import Holders
from muster.queueing.quota.tallies import Tallies
from muster.queueing.topology.ledger import Ledger

_NOTHING = Quota(0)

# Above every amount: what is available where no limit holds.
UNLIMITED = 1 << 62


class Node:
    """A ClusterQueue or a Cohort. Read it; `Tree` changes it.

    children: Cohorts first, then ClusterQueues, each by name.
    subtree: the quota of the node and of everything below that is lent to it.
    local: the part of that which it does not lend.
    usage: what is taken of it.
    over: of each flavor and resource, the children that use more than their own; see `borrowers`.
    workloads: those that hold quota in a ClusterQueue, by key. held: the same in the order of preemption.
    tallies: how many they are, and what they hold.
    height: 0 for a ClusterQueue, 1 for a Cohort with nothing but those below.
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
        """Whether it is a ClusterQueue."""
        return self.height == 0

    @property
    def policy(self) -> QueueSpec:
        """Of a ClusterQueue, how it admits."""
        assert isinstance(self.spec, QueueSpec), f"{self.name} is a Cohort"
        return self.spec

    @property
    def weight(self) -> Fraction:
        """For fair sharing."""
        return self.spec.weight if self.spec is not None else Fraction(1)

    @property
    def root(self) -> "Node":
        """The uppermost node over it; the node itself where nothing is."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def ancestors(self) -> Iterator["Node"]:
        """Its Cohort, that one's parent, and so on."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def queues(self) -> Iterator["Node"]:
        """The ClusterQueues at or below it, in a stable order."""
        nodes = [self]
        while nodes:
            node = nodes.pop()
            if node.is_queue:
                yield node
            nodes.extend(reversed(node.children.values()))

    def cohorts(self) -> Iterator["Node"]:
        """The Cohorts directly below it, in order."""
        return takewhile(lambda child: not child.is_queue, self.children.values())

    def borrowers(self, frs: Iterable[FlavorResource]) -> list["Node"]:
        """The children that use more than their own of one of these, in order; without a look at the others."""
        over = self.over
        found = {node for fr in frs if fr in over for node in over[fr]}
        return sorted(found, key=lambda node: (node.is_queue, node.name))

    def quota(self, fr: FlavorResource) -> Quota:
        """Its own; 0 where it has none."""
        return self.quotas.get(fr, _NOTHING)

    def available(self, fr: FlavorResource) -> int:
        """How much more may be used here now; below 0 where more is used than there is."""
        node, free = self, 0  # free: what may be used up to here before it counts above
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
        """How much could be used here if nothing were in use."""
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
        """Whether this much more may be used here now."""
        return all(amount <= self.available(fr) for fr, amount in usage.items() if amount)

    def borrows(self, fr: FlavorResource, more: int = 0) -> bool:
        """Whether it uses, with so much more, more than its own."""
        return self.usage.get(fr, 0) + more > self.subtree.get(fr, 0)

    def local_available(self, fr: FlavorResource) -> int:
        """How much more may be used before it counts above."""
        return max(0, self.local.get(fr, 0) - self.usage.get(fr, 0))

    def add(self, usage: Usage) -> None:
        """Count usage here and, as far as it exceeds what is its own, above."""
        for fr, amount in usage.items():
            node: Node | None = self
            while node is not None and amount > 0:
                beyond = amount - node.local_available(fr)
                used, own, parent = node.usage.get(fr, 0), node.subtree.get(fr, 0), node.parent
                node.usage[fr] = used + amount
                if used <= own < used + amount and parent is not None:
                    parent.over.setdefault(fr, set()).add(node)
                node, amount = parent, beyond

    def remove(self, usage: Usage) -> None:
        """Undo `add`."""
        for fr, amount in usage.items():
            node: Node | None = self
            while node is not None and amount > 0:
                used, own, parent = node.usage.get(fr, 0), node.subtree.get(fr, 0), node.parent
                beyond = min(amount, used - node.local.get(fr, 0))
                node.usage[fr] = used - amount
                if used > own >= used - amount and parent is not None:
                    parent.over[fr].discard(node)
                node, amount = parent, beyond


def _insert(children: dict[tuple[bool, str], Node], key: tuple[bool, str], node: Node) -> None:
    """Keep them sorted: the order of decisions must not depend on who was heard of first."""
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
    """Quota and, of a Cohort, usage: from its own specification and its children."""
    node.subtree = {fr: quota.nominal for fr, quota in node.quotas.items()}
    if not node.is_queue:
        node.usage = {}
        for child in node.children.values():
            _add(node, _share(child))
        node.height = _height(node)
    _keep(node)
    _mark(node)


def _mark(node: Node) -> None:
    """Tell its parent of what the node uses more than its own."""
    if node.parent is None:
        return
    over = node.parent.over
    for fr in {*over, *node.usage}:
        if node.borrows(fr):
            over.setdefault(fr, set()).add(node)
        elif fr in over:
            over[fr].discard(node)


class _Share(NamedTuple):
    """What of a node counts in its parent: the quota that it lends, and what it uses of others'."""

    lent: Mapping[FlavorResource, int]
    borrowed: Mapping[FlavorResource, int]


def _share(node: Node) -> _Share:
    local = node.local
    return _Share(
        {fr: amount - local.get(fr, 0) for fr, amount in node.subtree.items()},
        {fr: max(0, amount - local.get(fr, 0)) for fr, amount in node.usage.items()},
    )


def _add(node: Node, share: _Share, sign: int = 1) -> None:
    for fr, amount in share.lent.items():
        node.subtree[fr] = node.subtree.get(fr, 0) + sign * amount
    for fr, amount in share.borrowed.items():
        node.usage[fr] = node.usage.get(fr, 0) + sign * amount


def _height(node: Node) -> int:
    return 1 + max((child.height for child in node.cohorts()), default=0)


def _keep(node: Node) -> None:
    """Of its quota, what it does not lend."""
    lending = {fr: limit for fr in node.subtree if (limit := node.quota(fr).lending) is not None}
    node.local = {fr: max(0, node.subtree[fr] - limit) for fr, limit in lending.items()}


class Tree:
    """All ClusterQueues and Cohorts. A Cohort that is only named by others exists, without quota of its own."""

    def __init__(self) -> None:
        self.unready: dict[str, WorkloadInfo] = {}  # those that hold quota and whose pods are not ready, by key
        self.queues: dict[str, Node] = {}
        self.cohorts: dict[str, Node] = {}
        self._holding: dict[str, Node] = {}  # where each workload holds quota, by its key
        self._cut: dict[str, str] = {}  # Cohorts whose parent is not followed, for it would close a circle
        self.ledger = Ledger()  # where the pods are of those that say so

    def set_queue(self, spec: QueueSpec) -> Node:
        """Add or change a ClusterQueue; what it uses stays."""
        node = self.queues.get(spec.name)
        if node is None:
            node = self.queues[spec.name] = Node(spec.name, spec)
        elif node.spec == spec:
            return node
        node.spec, node.quotas = spec, spec.quotas
        self._hang(node, spec.cohort)
        return node

    def remove_queue(self, name: str) -> None:
        """Forget a ClusterQueue and what it uses."""
        if (node := self.queues.pop(name, None)) is not None:
            for key, workload in node.workloads.items():
                del self._holding[key]
                self.unready.pop(key, None)
                self.ledger.give(workload.places)
            self._hang(node, "")

    def hold(self, workload: WorkloadInfo) -> None:
        """A workload that has quota (`usage`) counts in its ClusterQueue from now on, in place of its former state."""
        self.release(workload)
        node = self._holding[workload.key] = self.queues[workload.queue]
        node.workloads[workload.key] = workload
        node.held.add(workload)
        node.tallies.add(workload)
        if not workload.ready:
            self.unready[workload.key] = workload
        node.add(workload.usage or {})
        if workload.places:
            self.ledger.take(workload.places)

    def holder(self, key: str) -> WorkloadInfo | None:
        """The workload of that key, if it holds quota."""
        node = self._holding.get(key)
        return node.workloads[key] if node is not None else None

    def release(self, workload: WorkloadInfo) -> None:
        """Whatever the workload held, in whichever ClusterQueue, is free again; nothing happens if it held nothing."""
        if (node := self._holding.pop(workload.key, None)) is not None:
            held = node.workloads.pop(workload.key)
            node.held.discard(held)
            node.tallies.discard(held)
            self.unready.pop(workload.key, None)
            node.remove(held.usage or {})
            if held.places:
                self.ledger.give(held.places)

    def set_cohort(self, spec: CohortSpec) -> Node:
        """Add or change a Cohort."""
        node = self._cohort(spec.name)
        node.spec, node.quotas = spec, spec.quotas
        self._hang(node, spec.parent)
        self._mend()
        return node

    def remove_cohort(self, name: str) -> None:
        """Take the quota of a Cohort away; as long as a queue or a Cohort names it, it remains as a mere name."""
        node = self.cohorts.get(name)
        if node is None:
            return
        node.spec, node.quotas = None, {}
        self._cut.pop(name, None)
        self._hang(node, "")
        self._drop_if_unused(node)
        self._mend()

    def in_circle(self, node: Node) -> bool:
        """Whether the Cohorts over it name each other in a circle: nothing is admitted there."""
        return node.root.name in self._cut and not node.root.is_queue

    def _cohort(self, name: str) -> Node:
        return self.cohorts.setdefault(name, Node(name))

    def _hang(self, node: Node, cohort: str) -> None:
        """Put a node under a Cohort ("" is none) and bring everything over its old and new place up to date."""
        old = node.parent
        key = (node.is_queue, node.name)
        if old is not None and old.name != cohort:
            _remove(old, key)
        node.parent = self._cohort(cohort) if cohort else None
        if not node.is_queue:
            self._cut.pop(node.name, None)
            if node.parent is not None and (node.parent is node or node in node.parent.ancestors()):
                self._cut[node.name] = cohort
                node.parent = None
                if old is not None and key in old.children:
                    _remove(old, key)
        counted = _share(node) if old is not None and old is node.parent else _Share({}, {})
        if node.parent is not None and key not in node.parent.children:
            _insert(node.parent.children, key, node)
        _recompute(node)
        self._count(node, counted)
        if old is not None and old is not node.parent:
            before = _share(old)
            _recompute(old)
            self._count(old, before)
            self._drop_if_unused(old)

    def _mend(self) -> None:
        """Follow the parents again whose circle has been broken."""
        for name, parent in list(self._cut.items()):
            self._hang(self.cohorts[name], parent)

    def _count(self, node: Node, before: _Share) -> None:
        """Bring everything over a node up to date that counted as `before`, without a look at its siblings."""
        while (parent := node.parent) is not None:
            counted, after = _share(parent), _share(node)
            if before.lent.keys() <= after.lent.keys():
                _add(parent, before, -1)
                _add(parent, after)
                parent.height = _height(parent)
                _keep(parent)
                _mark(parent)
            else:
                _recompute(parent)  # what no queue has any more is not to be listed
            node, before = parent, counted

    def _drop_if_unused(self, cohort: Node) -> None:
        named = cohort.children or cohort.name in self._cut.values()
        if cohort.spec is None and not named and cohort.parent is None:
            self.cohorts.pop(cohort.name, None)
