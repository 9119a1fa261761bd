"""The disruption budget of a PodGroup that asks for one, and the labels by which it selects the group's pods. Pure.

A selector sees labels only, and most dialects name the group in an annotation or a field: those pods get a label that
says the same when they are made.
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
from muster.jobs.podgroup.reference import By, Reference, reference_of

_LABELS: Final[Mapping[By, str]] = {
    By.ANNOTATION: GROUP_LABEL,
    By.FIELD: SCHEDULING_GROUP_LABEL,
    By.LABEL: POD_GROUP_LABEL,
}


def labels_of(pod: Pod) -> dict[str, str]:
    """The label that says of which group a pod is."""
    reference = reference_of(pod)
    return _label(reference) if reference is not None and not reference.problem else {}


def _label(group: Reference | PodGroup) -> dict[str, str]:
    # What names a group may be longer than the value of a label, and what stands in an annotation anything at all.
    return {} if names.label_value(group.name) else {_LABELS[group.by]: group.name}


def asks(group: PodGroup) -> bool:
    """Whether the group is to have a budget."""
    return group.meta.annotations.get(DISRUPTION_BUDGET_ANNOTATION) == "true" and bool(_label(group))


def budget_of(group: PodGroup) -> PodDisruptionBudget:
    """The budget of a group that asks for one: enough of its pods stay, and it goes with the group."""
    owner = OwnerReference(
        api_version=group.kind.api_version, kind=group.kind.kind, name=group.name, uid=group.uid, controller=True
    )
    spec = PodDisruptionBudgetSpec(min_available=group.min_members, selector=LabelSelector(match_labels=_label(group)))
    meta = ObjectMeta(name=group.name, namespace=group.namespace, owner_references=(owner,))
    return PodDisruptionBudget(metadata=meta, spec=spec)


def is_of(budget: PodDisruptionBudget, group: PodGroup) -> bool:
    """Whether a budget was made for the very group."""
    return any(owner.uid == group.uid and owner.controller for owner in budget.metadata.owner_references)
