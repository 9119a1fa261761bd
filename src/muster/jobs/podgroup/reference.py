"""Which PodGroup a pod is of, by its own words. It is always one of its own namespace."""

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
    """In which way a pod names its group; the kinds of groups that are named so are others for each."""

    FIELD = "scheduling-group"  # of Kubernetes' own PodGroup
    LABEL = "pod-group"  # of the coscheduling plugin's
    ANNOTATION = "group-name"  # of KEP-34's and all who followed it


class Reference(Struct, frozen=True):
    """The group that a pod names, or why it cannot be said which.

    problem: "" if nothing is wrong.
    """

    by: By
    name: str
    problem: str = ""


_ANNOTATIONS = (VOLCANO_GROUP_NAME_ANNOTATION, GROUP_NAME_ANNOTATION)


def reference_of(pod: Pod, ways: Collection[By] = tuple(By)) -> Reference | None:
    """The group that the pod names first, in one of these ways; None if it names none."""
    if _says_nothing(pod):
        return None
    said = [one for one in _said(pod) if one[0] in ways]
    if not said:
        return None
    named = [(by, word, name) for by, word, name in said if name]
    if not named:
        by, word, _ = said[0]
        return Reference(by, "", f"{word} is empty: name a PodGroup in it and submit the pod again")
    first, word, name = named[0]
    for _, other_word, other in named[1:]:
        if other != name:
            return Reference(first, name, f'the pod names two PodGroups: "{name}" in {word}, "{other}" in {other_word}')
    return Reference(first, name)


def _says_nothing(pod: Pod) -> bool:
    """As most pods do; nothing is asked of each of them more often."""
    meta = pod.metadata
    return (
        pod.spec.scheduling_group is None
        and POD_GROUP_LABEL not in meta.labels
        and GROUP_NAME_ANNOTATION not in meta.annotations
        and VOLCANO_GROUP_NAME_ANNOTATION not in meta.annotations
    )


def _said(pod: Pod) -> Iterator[tuple[By, str, str]]:
    """How, where and what, in the order in which it counts. An empty label says nothing, an empty annotation does."""
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        yield By.FIELD, "spec.schedulingGroup", group.pod_group_name
    if label := pod.metadata.labels.get(POD_GROUP_LABEL):
        yield By.LABEL, f"label {POD_GROUP_LABEL}", label
    for annotation in _ANNOTATIONS:
        if (name := pod.metadata.annotations.get(annotation)) is not None:
            yield By.ANNOTATION, f"annotation {annotation}", name
