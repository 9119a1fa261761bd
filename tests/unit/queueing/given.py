"""Build queues, Cohorts and podsets from the short form of the case files."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from muster.api.core import NodeSelectorRequirement, NodeSelectorTerm, Toleration
from muster.api.values.quantity import parse_amount
from muster.queueing.model import (
    CohortSpec,
    FlavorResource,
    Fungibility,
    PodSet,
    Preemption,
    QueueSpec,
    Quota,
    ResourceGroup,
    WorkloadInfo,
)
from muster.queueing.quota.tree import Tree

START = datetime(2026, 1, 1, tzinfo=UTC)


def fr(text: str) -> FlavorResource:
    """Parse `FLAVOR/RESOURCE`."""
    flavor, _, resource = text.partition("/")
    return FlavorResource(flavor, resource)


def usage(amounts: Mapping[str, Any]) -> dict[FlavorResource, int]:
    return {fr(name): parse_amount(fr(name).resource, quantity) for name, quantity in amounts.items()}


def quotas(groups: list[dict[str, dict[str, Any]]]) -> dict[FlavorResource, Quota]:
    by_resource = {}
    for flavor, resources in (item for group in groups for item in group.items()):
        for resource, written in resources.items():
            parts = [None if part is None else parse_amount(resource, part) for part in _list(written)]
            by_resource[FlavorResource(flavor, resource)] = Quota(parts[0] or 0, *parts[1:])
    return by_resource


def queue(name: str, written: dict[str, Any]) -> QueueSpec:
    fungibility, preemption = written.get("fungibility", {}), written.get("preemption", {})
    groups = written.get("groups", [])
    return QueueSpec(
        name,
        cohort=written.get("cohort", ""),
        groups=tuple(ResourceGroup(tuple(next(iter(group.values()))), tuple(group)) for group in groups),
        quotas=quotas(groups),
        fungibility=Fungibility(
            fungibility.get("whenCanBorrow") == "TryNextFlavor",
            fungibility.get("whenCanPreempt", "TryNextFlavor") == "TryNextFlavor",
            fungibility.get("preference", "BorrowingOverPreemption"),
        ),
        preemption=Preemption(
            preemption.get("withinClusterQueue", "Never"),
            preemption.get("reclaimWithinCohort", "Never"),
            preemption.get("borrowWithinCohort", "Never") != "Never",
        ),
    )


def cohort(name: str, written: dict[str, Any]) -> CohortSpec:
    return CohortSpec(name, written.get("parent", ""), quotas(written.get("groups", [])))


def tree(queues: dict[str, dict[str, Any]], cohorts: dict[str, dict[str, Any]] | None = None) -> Tree:
    """Return a tree of the queues with their usage (`used`)."""
    new_tree = Tree()
    for name, written in queues.items():
        new_tree.set_queue(queue(name, written))
    for name, written in (cohorts or {}).items():
        new_tree.set_cohort(cohort(name, written or {}))
    for name, written in queues.items():
        new_tree.queues[name].add(usage(written.get("used", {})))
    return new_tree


def podset(written: dict[str, Any]) -> PodSet:
    terms = msgspec.convert(written.get("terms", []), list[list[NodeSelectorRequirement]])
    return PodSet(
        name=written.get("name", "main"),
        count=written.get("count", 1),
        requests={resource: parse_amount(resource, quantity) for resource, quantity in written["requests"].items()},
        selector=written.get("selector", {}),
        terms=tuple(NodeSelectorTerm(match_expressions=tuple(term)) for term in terms),
        tolerations=tuple(msgspec.convert(written.get("tolerations", []), list[Toleration])),
        together=written.get("together", ""),
    )


def workload(*podsets: PodSet, name: str = "w", queue: str = "queue", **more: Any) -> WorkloadInfo:
    values: dict[str, Any] = {"priority": 0, "created": START, "queued": START} | more
    return WorkloadInfo(f"ns/{name}", f"uid-{name}", queue, "ns/local", podsets=podsets, **values)


def _list(written: Any) -> list[Any]:
    return written if isinstance(written, list) else [written]
