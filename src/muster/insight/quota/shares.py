"""The tree of cohorts and ClusterQueues with the quota of each: nominal, used, borrowed and lent. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from muster.api.kueue import ClusterQueue, Cohort, FairSharingStatus
from muster.insight.forecasts.forecast import build_quota_tree
from muster.insight.quota.queues import describe_use, list_resources, make_cluster_queue_row
from muster.insight.text import format_quantity
from muster.queueing.model import FlavorResource
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.scheduling.fairness import UNBOUNDED


class QuotaShare(Struct, frozen=True):
    """The quota of one resource and its use, in units of `quantity.parse_amount`.

    flavor: the flavor; "" for the sum of all flavors.
    used: the quota that jobs hold.
    borrowed: the part of `used` beyond the nominal quota.
    lent: the part of the nominal quota that the queue cannot use now, because other queues use it.
    """

    resource: str
    flavor: str
    nominal: int
    used: int
    borrowed: int = 0
    lent: int = 0

    @property
    def text(self) -> str:
        """The use as users read it, such as `10/8 (2 borrowed)`."""
        return describe_use(self.resource, self.used, self.nominal, self.borrowed, self.lent)

    @property
    def words(self) -> str:
        """The use as a sentence, for screen readers and tooltips."""
        used, nominal, borrowed, lent = (
            format_quantity(self.resource, one) for one in (self.used, self.nominal, self.borrowed, self.lent)
        )
        own = f"{used} of {nominal} used" if self.nominal else f"{used} used, none of its own"
        extra = f", {borrowed} borrowed" * (self.borrowed > 0) + f", {lent} lent" * (self.lent > 0)
        return f"{self.resource}: {own}{extra}"


class QuotaNode(Struct, frozen=True):
    """A Cohort or a ClusterQueue in the tree.

    depth: how many Cohorts are above it.
    parent: the Cohort directly above it; "" for none.
    weight: the weight in fair sharing; "" for the default.
    shared: the percentage of the lendable quota that it borrows; "" without fair sharing.
    shares: the quota of each resource, over all flavors.
    flavors: the quota of each flavor and resource.
    row: the ClusterQueue's row, as `make_cluster_queue_row` makes it; None for a Cohort.
    """

    kind: Literal["Cohort", "ClusterQueue"]
    name: str
    depth: int
    parent: str
    weight: str
    shared: str
    shares: tuple[QuotaShare, ...]
    flavors: tuple[QuotaShare, ...] = ()
    row: dict[str, Any] | None = None

    def share_of(self, resource: str) -> QuotaShare | None:
        """Return the share of a resource over all flavors; None if there is no quota of it."""
        return next((one for one in self.shares if one.resource == resource), None)


def list_quota_nodes(queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> list[QuotaNode]:
    """Return all Cohorts and ClusterQueues from the roots down.

    Each Cohort is followed by its children, in a stable order.
    """
    queues, cohorts = list(queues), list(cohorts)
    tree = build_quota_tree(queues, cohorts)
    rows = {one.metadata.name: make_cluster_queue_row(one) for one in queues if one.metadata.name in tree.queues}
    add_usage(tree, {name: row["quotas"] for name, row in rows.items()})
    fair = {("ClusterQueue", one.metadata.name): one.status.fair_sharing for one in queues}
    fair |= {("Cohort", one.metadata.name): one.status.fair_sharing for one in cohorts}
    roots = [one for one in (*tree.cohorts.values(), *tree.queues.values()) if one.parent is None]
    return [
        _make_node(node, depth, rows.get(node.name) if node.is_queue else None, rows, fair)
        for root in sorted(roots, key=lambda one: (one.is_queue, one.name))
        for node, depth in _walk_tree(root, 0)
    ]


def add_usage(tree: Tree, quotas: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """Add the usage of ClusterQueues to a tree without usage.

    quotas: the quota rows by ClusterQueue, as `make_quota_rows` returns them.
    """
    for name, rows in quotas.items():
        tree.queues[name].add({FlavorResource(one["flavor"], one["resource"]): one["used"] for one in rows})


def list_shared_resources(nodes: Iterable[QuotaNode]) -> list[str]:
    """Return the resources that get a column of their own in the table of ClusterQueues."""
    return list_resources(node.row for node in nodes if node.row is not None)


def _walk_tree(node: Node, depth: int) -> Iterator[tuple[Node, int]]:
    yield node, depth
    for child in node.children.values():
        yield from _walk_tree(child, depth + 1)


def _make_node(
    node: Node,
    depth: int,
    row: dict[str, Any] | None,
    rows: dict[str, dict[str, Any]],
    fair: dict[tuple[str, str], FairSharingStatus | None],
) -> QuotaNode:
    kind: Literal["Cohort", "ClusterQueue"] = "ClusterQueue" if node.is_queue else "Cohort"
    flavors = _list_queue_shares(node, row) if row is not None else _list_cohort_shares(node, rows)
    weight = "" if node.weight == 1 else f"{float(node.weight):g}"
    shared = _format_shared(fair.get((kind, node.name)))
    parent = node.parent.name if node.parent is not None else ""
    return QuotaNode(kind, node.name, depth, parent, weight, shared, _sum_flavors(flavors), tuple(flavors), row)


def _list_queue_shares(node: Node, row: dict[str, Any]) -> list[QuotaShare]:
    shares = []
    for one in row["quotas"]:
        fr = FlavorResource(one["flavor"], one["resource"])
        lent = max(0, one["nominal"] - one["used"] - max(0, node.available(fr)))
        shares.append(QuotaShare(fr.resource, fr.flavor, one["nominal"], one["used"], one["borrowed"], lent))
    return shares


def _list_cohort_shares(node: Node, rows: dict[str, dict[str, Any]]) -> list[QuotaShare]:
    """Return, by resource, the quota of a Cohort with all its children, and the usage of its ClusterQueues."""
    nominal: dict[FlavorResource, int] = {}
    used: dict[FlavorResource, int] = {}
    for below, _ in _walk_tree(node, 0):
        for fr, quota in below.quotas.items():
            nominal[fr] = nominal.get(fr, 0) + quota.nominal
        for one in rows[below.name]["quotas"] if below.is_queue else ():
            fr = FlavorResource(one["flavor"], one["resource"])
            used[fr] = used.get(fr, 0) + one["used"]
    return [QuotaShare(fr.resource, fr.flavor, most, used.get(fr, 0)) for fr, most in nominal.items()]


def _sum_flavors(shares: Sequence[QuotaShare]) -> tuple[QuotaShare, ...]:
    sums: dict[str, QuotaShare] = {}
    for one in shares:
        so_far = sums.get(one.resource, QuotaShare(one.resource, "", 0, 0))
        sums[one.resource] = QuotaShare(
            one.resource,
            "",
            so_far.nominal + one.nominal,
            so_far.used + one.used,
            so_far.borrowed + one.borrowed,
            so_far.lent + one.lent,
        )
    return tuple(sums.values())


def _format_shared(status: FairSharingStatus | None) -> str:
    if status is None:
        return ""
    return "∞" if status.weighted_share >= UNBOUNDED else f"{status.weighted_share / 10:g} %"
