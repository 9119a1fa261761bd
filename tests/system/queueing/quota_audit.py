"""What a quota tree allows, worked out from API objects alone, the slow way: it shares no arithmetic with the engine.

The rules are Kueue's (KEP-79, KEP-1224): of the quota of a node, what it does not lend is its own; what it uses beyond
that counts in its Cohort. A Cohort without a parent uses no more than there is, and nobody borrows more than he may.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from muster.api.conditions import is_true
from muster.api.core import Pod
from muster.api.kueue import ClusterQueue, Cohort, PodSetAssignment, Workload
from muster.api.values.quantity import parse_amount


class Cell(NamedTuple):
    """A flavor and a resource in a ClusterQueue or (with a slash) a Cohort."""

    node: str
    flavor: str
    resource: str


Amounts = Mapping[Cell, int]


def reserved(workloads: Iterable[Workload]) -> Counter[Cell]:
    """What workloads hold, by their own words."""
    held: Counter[Cell] = Counter()
    for one in workloads:
        conditions, admission = one.status.conditions, one.status.admission
        if admission is None or not is_true(conditions, "QuotaReserved") or is_true(conditions, "Finished"):
            continue
        for podset in admission.pod_set_assignments:
            for resource, quantity in podset.resource_usage.items():
                cell = Cell(admission.cluster_queue, podset.flavors[resource], resource)
                held[cell] += parse_amount(resource, quantity) * _needed(one, podset) // (podset.count or 1)
    return held


def _needed(workload: Workload, assignment: PodSetAssignment) -> int:
    """How many pods of a podset still need the quota that they were given: those that have ended do not."""
    (wanted,) = (one.count for one in workload.spec.pod_sets if one.name == assignment.name)
    given = assignment.count or 0
    if given > wanted:  # an elastic Job that has shrunk; who has ended may be of the part that went
        return wanted
    ended = sum(one.count for one in workload.status.reclaimable_pods if one.name == assignment.name)
    return min(given, wanted - ended)


def squatters(pods: Iterable[Pod], workloads: Iterable[Workload]) -> list[str]:
    """Pods on nodes, ending ones included, whose Jobs hold no quota."""
    holders = {
        owner.uid
        for one in workloads
        if one.status.admission is not None and is_true(one.status.conditions, "QuotaReserved")
        for owner in one.metadata.owner_references
    }
    return [
        pod.metadata.name
        for pod in pods
        if pod.spec.node_name
        and pod.status.phase not in ("Succeeded", "Failed")
        and not any(owner.uid in holders for owner in pod.metadata.owner_references)
    ]


@dataclass(slots=True)
class _Node:
    parent: str
    quotas: dict[tuple[str, str], Any] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)


class Books:
    """The tree of some ClusterQueues and Cohorts."""

    def __init__(self, queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> None:
        self._nodes: dict[str, _Node] = {}
        for queue in queues:
            name = queue.spec.cohort_name
            self._enter(queue.metadata.name, f"/{name}" if name else "", queue.spec.resource_groups)
        for cohort in cohorts:
            name = cohort.spec.parent_name
            self._enter(f"/{cohort.metadata.name}", f"/{name}" if name else "", cohort.spec.resource_groups)
        for name, node in list(self._nodes.items()):
            if node.parent:
                self._nodes.setdefault(node.parent, _Node("")).children.append(name)

    def _enter(self, name: str, parent: str, groups: Any) -> None:
        quotas = {(one.name, quota.name): quota for group in groups for one in group.flavors for quota in one.resources}
        self._nodes[name] = _Node(parent, quotas)

    def excess(self, held: Amounts) -> dict[Cell, int]:
        """By how much each limit is broken; empty if all is well."""
        found: dict[Cell, int] = {}
        kinds = {key for node in self._nodes.values() for key in node.quotas} | {cell[1:] for cell in held}
        for name in self._nodes:
            for key in kinds:
                if (over := self._usage(name, key, held) - self._most(name, key)) > 0:
                    found[Cell(name, *key)] = over
        return found

    def _number(self, name: str, key: tuple[str, str], which: str) -> int | None:
        quota = self._nodes[name].quotas.get(key)
        text = getattr(quota, which) if quota is not None else None
        return None if text is None else parse_amount(key[1], text)

    def _subtree(self, name: str, key: tuple[str, str]) -> int:
        own = self._number(name, key, "nominal_quota") or 0
        return own + sum(self._subtree(child, key) - self._own(child, key) for child in self._nodes[name].children)

    def _own(self, name: str, key: tuple[str, str]) -> int:
        lending = self._number(name, key, "lending_limit")
        return 0 if lending is None else max(0, self._subtree(name, key) - lending)

    def _usage(self, name: str, key: tuple[str, str], held: Amounts) -> int:
        below = (self._usage(child, key, held) - self._own(child, key) for child in self._nodes[name].children)
        return held.get(Cell(name, *key), 0) + sum(max(0, over) for over in below)

    def _most(self, name: str, key: tuple[str, str]) -> int:
        subtree, borrowing = self._subtree(name, key), self._number(name, key, "borrowing_limit")
        if not self._nodes[name].parent:
            return subtree
        return 1 << 62 if borrowing is None else subtree + borrowing
