"""Make the disruption budget of a PodGroup that requests one, and the labels with which it selects pods. Pure.

A selector matches only labels, but most dialects name the group in an annotation or a field. Pods of those dialects get
an equivalent label when they are created.
"""

from collections.abc import Mapping
from typing import Final

from muster.api.core import Pod
from muster.api.groups.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from muster.api.meta import LabelSelector, ObjectMeta, OwnerReference
from muster.api.podgroups.names import (
    DISRUPTION_BUDGET_ANNOTATION,
    GROUP_LABEL,
    POD_GROUP_LABEL,
    SCHEDULING_GROUP_LABEL,
)
from muster.api.validation import names
from muster.jobs.podgroup.record import PodGroup
from muster.jobs.podgroup.reference import By, GroupReference, reference_of

_LABELS: Final[Mapping[By, str]] = {
    By.ANNOTATION: GROUP_LABEL,
    By.FIELD: SCHEDULING_GROUP_LABEL,
    By.LABEL: POD_GROUP_LABEL,
}


def labels_of(pod: Pod) -> dict[str, str]:
    """Return the label that a pod gets so that a selector can find its group; empty for a pod without a group."""
    reference = reference_of(pod)
    return _make_label(reference) if reference is not None and not reference.problem else {}


def _make_label(group: GroupReference | PodGroup) -> dict[str, str]:
    # A group's name may be longer than a label's value, and an annotation may hold any text.
    return {} if names.label_value(group.name) else {_LABELS[group.by]: group.name}


def needs_budget(group: PodGroup) -> bool:
    """Return whether the group's annotation requests a disruption budget, and a label can hold the group's name."""
    return group.meta.annotations.get(DISRUPTION_BUDGET_ANNOTATION) == "true" and bool(_make_label(group))


def budget_of(group: PodGroup) -> PodDisruptionBudget:
    """Return the disruption budget of a group that requests one.

    The budget protects the group's minimum, and is deleted with the group.
    """
    owner = OwnerReference(
        api_version=group.kind.api_version, kind=group.kind.kind, name=group.name, uid=group.uid, controller=True
    )
    spec = PodDisruptionBudgetSpec(
        min_available=group.min_members, selector=LabelSelector(match_labels=_make_label(group))
    )
    meta = ObjectMeta(name=group.name, namespace=group.namespace, owner_references=(owner,))
    return PodDisruptionBudget(metadata=meta, spec=spec)


def is_of(budget: PodDisruptionBudget, group: PodGroup) -> bool:
    """Return whether a disruption budget was made for this group, and not for an earlier one of the same name."""
    return any(owner.uid == group.uid and owner.controller for owner in budget.metadata.owner_references)
