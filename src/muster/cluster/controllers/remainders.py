"""What the conditions of a namespace that is being emptied say of what is left in it. Pure.

Types, reasons and sentences are those of kube-controller-manager: people look here why a namespace does not go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from muster.api.core import NamespaceCondition
from muster.api.meta import Object

# Nothing fails that is not tried again: these say so from the beginning.
_SOUND = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)


def conditions(
    left: Mapping[str, Sequence[Object]], before: Iterable[NamespaceCondition], now: datetime
) -> tuple[NamespaceCondition, ...]:
    """The conditions, given what is left by resource (`pods`, `jobs.batch`) and the conditions until now."""
    known = {condition.type: condition for condition in before}
    found = [NamespaceCondition(type=type_, status="False", reason=why, message=text) for type_, why, text in _SOUND]
    found += [_content(left), _finalizers(left)]
    return tuple(_since(condition, known.get(condition.type), now) for condition in found)


def _content(left: Mapping[str, Sequence[Object]]) -> NamespaceCondition:
    type_ = "NamespaceContentRemaining"
    counts = sorted((_full(resource), len(objects)) for resource, objects in left.items() if objects)
    if not counts:
        message = "All content successfully removed"
        return NamespaceCondition(type=type_, status="False", reason="ContentRemoved", message=message)
    text = ", ".join(f"{resource} has {count} resource instances" for resource, count in counts)
    message = f"Some resources are remaining: {text}"
    return NamespaceCondition(type=type_, status="True", reason="SomeResourcesRemain", message=message)


def _finalizers(left: Mapping[str, Sequence[Object]]) -> NamespaceCondition:
    type_ = "NamespaceFinalizersRemaining"
    counts = Counter(name for objects in left.values() for obj in objects for name in obj.metadata.finalizers)
    if not counts:
        message = "All content-preserving finalizers finished"
        return NamespaceCondition(type=type_, status="False", reason="ContentHasNoFinalizers", message=message)
    text = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(counts.items()))
    message = f"Some content in the namespace has finalizers remaining: {text}"
    return NamespaceCondition(type=type_, status="True", reason="SomeFinalizersRemain", message=message)


def _full(resource: str) -> str:
    """The resource with its group, which of core resources is empty: `pods.`."""
    return resource if "." in resource else f"{resource}."


def _since(condition: NamespaceCondition, before: NamespaceCondition | None, now: datetime) -> NamespaceCondition:
    same = before is not None and before.status == condition.status
    return NamespaceCondition(
        type=condition.type,
        status=condition.status,
        last_transition_time=before.last_transition_time if before is not None and same else now,
        reason=condition.reason,
        message=condition.message,
    )
