"""Read the pods of one Job, each pod once, and sort them by state.

`Member` has the fields of a pod that the algorithm needs; `Census` sorts members by state. Pods that ended and lost the
tracking finalizer are already counted in the status, and are left out.
"""

from collections.abc import Iterable, Sequence
from typing import Self

from msgspec import Struct

from muster.api.batch import COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT, TRACKING_FINALIZER
from muster.api.core import Pod
from muster.api.ours.interruptions import INTERRUPTIONS_ANNOTATION
from muster.api.pods import is_ready

NO_INDEX = -1
_MAX_INT32 = 2**31 - 1


class Member(Struct, frozen=True):
    """One pod of a Job, with the fields that the decision needs.

    index: the pod's completion index, or NO_INDEX if it has no valid one.
    tracked: whether the pod has the finalizer, so that the status does not count it yet.
    """

    pod: Pod
    uid: str
    index: int
    tracked: bool
    succeeded: bool
    failed: bool  # phase Failed
    deleting: bool

    @classmethod
    def of(cls, pod: Pod) -> Self:
        """Return the fields of a pod that the decision needs."""
        meta, phase = pod.metadata, pod.status.phase
        return cls(
            pod,
            meta.uid,
            completion_index(pod),
            TRACKING_FINALIZER in meta.finalizers,
            phase == "Succeeded",
            phase == "Failed",
            meta.deletion_timestamp is not None,
        )

    @property
    def ended(self) -> bool:
        """Whether all containers have ended and none will start."""
        return self.succeeded or self.failed

    def counts_failed(self, replace_only_failed: bool) -> bool:
        """Return whether the pod is a failure: it failed, or it is being deleted before it ended.

        If only failed pods are replaced, a deleted pod counts as a failure only once it has ended.
        """
        return self.failed or (self.deleting and not self.succeeded and not replace_only_failed)


class Census(Struct, frozen=True):
    """The pods of a Job, sorted by state. Each sequence is in the order of completion index.

    active: pods that have not ended and are not being deleted.
    terminating: pods that are being deleted and have not ended.
    tracked: pods in any state that the status does not count yet.
    """

    active: tuple[Member, ...]
    terminating: tuple[Member, ...]
    tracked: tuple[Member, ...]

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> Self:
        """Return the census of these pods, without pods that have ended and are counted in the status."""
        members = sorted((Member.of(pod) for pod in pods), key=_sort_by_index)
        return cls(
            tuple(member for member in members if not member.ended and not member.deleting),
            tuple(member for member in members if not member.ended and member.deleting),
            tuple(member for member in members if member.tracked),
        )


def ready_count(members: Sequence[Member]) -> int:
    """Return how many of the pods are ready."""
    return sum(is_ready(member.pod) for member in members)


def has_run(member: Member) -> bool:
    """Return whether containers of a pod that has not ended have started."""
    return member.pod.status.phase == "Running"


def completion_index(pod: Pod) -> int:
    """Return the pod's index by its annotation; NO_INDEX if the annotation is missing or no plain number."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else NO_INDEX


def failures_of_index(pod: Pod) -> tuple[int, int]:
    """Return how many earlier pods of the same index failed: failures that count, and failures that the policy ignores.

    A failed pod's replacement copies the annotations with these numbers. Users can edit them; an invalid number is read
    as 0.
    """
    annotations = pod.metadata.annotations
    return _parse_count(annotations.get(INDEX_FAILURE_COUNT, "")), _parse_count(
        annotations.get(INDEX_IGNORED_FAILURE_COUNT, "")
    )


def interruptions_of_index(pod: Pod) -> int:
    """Return how many earlier pods of the same index were interrupted."""
    return _parse_count(pod.metadata.annotations.get(INTERRUPTIONS_ANNOTATION, ""))


def _parse_count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
    return number if number <= _MAX_INT32 else 0


def _sort_by_index(member: Member) -> int:
    return member.index
