"""Find the PodGroup that a pod names, which is always in the pod's own namespace."""

from collections.abc import Collection, Iterator
from enum import StrEnum

from msgspec import Struct

from muster.api.core import Pod
from muster.api.podgroups.names import (
    GROUP_NAME_ANNOTATION,
    POD_GROUP_LABEL,
    VOLCANO_GROUP_NAME_ANNOTATION,
)


class By(StrEnum):
    """The ways in which a pod can name its group: a label, an annotation or a field.

    The way decides the kind of group.
    """

    FIELD = "scheduling-group"  # for Kubernetes' own PodGroup
    LABEL = "pod-group"  # for the coscheduling plugin's PodGroup
    ANNOTATION = "group-name"  # for scheduler KEP-34's PodGroup and its successors


class GroupReference(Struct, frozen=True):
    """The group that a pod names.

    problem: why the reference is invalid, such as an empty name or two different groups; "" if it is valid.
    """

    by: By
    name: str
    problem: str = ""


_ANNOTATIONS = (VOLCANO_GROUP_NAME_ANNOTATION, GROUP_NAME_ANNOTATION)


def reference_of(pod: Pod, ways: Collection[By] = tuple(By)) -> GroupReference | None:
    """Return the group that a pod names; None if it names none.

    A pod may name groups in several ways; the first way with a name, in the order of `By`, decides. If the ways
    name different groups, the result has a `problem`.

    ways: the ways to consider.
    """
    if _names_no_group(pod):
        return None
    references = [one for one in _list_references(pod) if one[0] in ways]
    if not references:
        return None
    named = [(by, word, name) for by, word, name in references if name]
    if not named:
        by, word, _ = references[0]
        return GroupReference(by, "", f"{word} is empty: name a PodGroup in it and submit the pod again")
    first, word, name = named[0]
    for _, other_word, other in named[1:]:
        if other != name:
            return GroupReference(
                first, name, f'the pod names two PodGroups: "{name}" in {word}, "{other}" in {other_word}'
            )
    return GroupReference(first, name)


def _names_no_group(pod: Pod) -> bool:
    """Return whether a pod names no group, like most pods; a cheap check before the full one."""
    meta = pod.metadata
    return (
        pod.spec.scheduling_group is None
        and POD_GROUP_LABEL not in meta.labels
        and GROUP_NAME_ANNOTATION not in meta.annotations
        and VOLCANO_GROUP_NAME_ANNOTATION not in meta.annotations
    )


def _list_references(pod: Pod) -> Iterator[tuple[By, str, str]]:
    """Yield the way, the key and the name of each group that a pod names, in the order of `By`.

    An empty label names no group, but an empty annotation is yielded, so that the caller can report it.
    """
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        yield By.FIELD, "spec.schedulingGroup", group.pod_group_name
    if label := pod.metadata.labels.get(POD_GROUP_LABEL):
        yield By.LABEL, f"label {POD_GROUP_LABEL}", label
    for annotation in _ANNOTATIONS:
        if (name := pod.metadata.annotations.get(annotation)) is not None:
            yield By.ANNOTATION, f"annotation {annotation}", name
