"""The pods of one Job, each read once.

`Member` is what the algorithm needs to know of a pod; `Census` sorts them by state. Pods that ended and lost the
tracking finalizer are history that the status already holds: they appear nowhere here.
"""

from collections.abc import Iterable, Sequence
from typing import Self

from msgspec import Struct

from muster.api.batch import COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT, TRACKING_FINALIZER
from muster.api.core import Pod
from muster.api.pods import is_ready

NO_INDEX = -1
_MAX_INT32 = 2**31 - 1


class Member(Struct, frozen=True):
    """One pod of the Job.

    index: its completion index, or NO_INDEX if it has none that makes sense.
    tracked: has the finalizer, so the status does not hold it yet.
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
        """Read a pod."""
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
        """No container runs any more, nor ever will."""
        return self.succeeded or self.failed

    def counts_failed(self, replace_only_failed: bool) -> bool:
        """Whether the pod is a failure: it failed, or it is being deleted before it could end.

        Where only failed pods are replaced, a deletion is no failure until the pod has ended.
        """
        return self.failed or (self.deleting and not self.succeeded and not replace_only_failed)


class Census(Struct, frozen=True):
    """The Job's pods by state; each sequence in the order of completion index, then as given.

    active: neither ended nor being deleted.
    terminating: being deleted and not ended.
    tracked: not yet in the status, in whatever state.
    """

    active: tuple[Member, ...]
    terminating: tuple[Member, ...]
    tracked: tuple[Member, ...]

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> Self:
        """Read the pods; those that are over and counted are passed by."""
        members = sorted((Member.of(pod) for pod in pods), key=_by_index)
        return cls(
            tuple(member for member in members if not member.ended and not member.deleting),
            tuple(member for member in members if not member.ended and member.deleting),
            tuple(member for member in members if member.tracked),
        )


def ready_count(members: Sequence[Member]) -> int:
    """How many of the pods are ready."""
    return sum(is_ready(member.pod) for member in members)


def completion_index(pod: Pod) -> int:
    """The pod's index by its annotation; NO_INDEX if there is none, or it is not a plain number."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else NO_INDEX


def failures_of_index(pod: Pod) -> tuple[int, int]:
    """How many pods of its index failed before this one: those that count, and those ignored by policy.

    The annotations travel from a failed pod to the one that replaces it; nonsense (users can edit them) is 0.
    """
    annotations = pod.metadata.annotations
    return _count(annotations.get(INDEX_FAILURE_COUNT, "")), _count(annotations.get(INDEX_IGNORED_FAILURE_COUNT, ""))


def _count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
    return number if number <= _MAX_INT32 else 0


def _by_index(member: Member) -> int:
    return member.index
