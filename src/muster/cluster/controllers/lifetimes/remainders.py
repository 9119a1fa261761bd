"""Compute the conditions that report the remaining objects of a terminating namespace. Pure.

Types, reasons and messages are kube-controller-manager's. Users read here why a namespace does not disappear.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from muster.api.core import NamespaceCondition
from muster.api.meta import Object

# Every failure is retried, so these conditions always report no failure.
_SOUND = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)


def make_conditions(
    left: Mapping[str, Sequence[Object]], before: Iterable[NamespaceCondition], now: datetime
) -> tuple[NamespaceCondition, ...]:
    """Return the new conditions of a terminating namespace.

    left: the remaining objects, by resource (`pods`, `jobs.batch`).
    before: the current conditions.
    """
    known = {condition.type: condition for condition in before}
    updated = [NamespaceCondition(type=type_, status="False", reason=why, message=text) for type_, why, text in _SOUND]
    updated += [_make_content_condition(left), _make_finalizers_condition(left)]
    return tuple(_set_transition_time(condition, known.get(condition.type), now) for condition in updated)


def _make_content_condition(left: Mapping[str, Sequence[Object]]) -> NamespaceCondition:
    type_ = "NamespaceContentRemaining"
    counts = sorted((_qualify(resource), len(objects)) for resource, objects in left.items() if objects)
    if not counts:
        message = "All content successfully removed"
        return NamespaceCondition(type=type_, status="False", reason="ContentRemoved", message=message)
    text = ", ".join(f"{resource} has {count} resource instances" for resource, count in counts)
    message = f"Some resources are remaining: {text}"
    return NamespaceCondition(type=type_, status="True", reason="SomeResourcesRemain", message=message)


def _make_finalizers_condition(left: Mapping[str, Sequence[Object]]) -> NamespaceCondition:
    type_ = "NamespaceFinalizersRemaining"
    counts = Counter(name for objects in left.values() for obj in objects for name in obj.metadata.finalizers)
    if not counts:
        message = "All content-preserving finalizers finished"
        return NamespaceCondition(type=type_, status="False", reason="ContentHasNoFinalizers", message=message)
    text = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(counts.items()))
    message = f"Some content in the namespace has finalizers remaining: {text}"
    return NamespaceCondition(type=type_, status="True", reason="SomeFinalizersRemain", message=message)


def _qualify(resource: str) -> str:
    """Return the resource followed by its group, which is empty for core resources: `pods.`."""
    return resource if "." in resource else f"{resource}."


def _set_transition_time(
    condition: NamespaceCondition, before: NamespaceCondition | None, now: datetime
) -> NamespaceCondition:
    same = before is not None and before.status == condition.status
    return NamespaceCondition(
        type=condition.type,
        status=condition.status,
        last_transition_time=before.last_transition_time if before is not None and same else now,
        reason=condition.reason,
        message=condition.message,
    )
