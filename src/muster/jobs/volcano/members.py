"""Read the pods of a Job by their annotations, and sort them by state."""

from collections.abc import Iterable

from msgspec import Struct

from muster.api.core import Pod
from muster.api.pods import ended_with_cluster, find_condition, is_finished
from muster.api.volcano import JOB_VERSION, REPLACED_BY_RETRY, TASK_INDEX, TASK_SPEC, Job
from muster.jobs.interruption import is_interrupted


class Member(Struct, frozen=True):
    """A pod of a Volcano Job, with the fields that the decision needs.

    version: how many times the Job had been stopped or restarted when the pod was created.
    retry: the number of the retry that replaces the pod; 0 if no retry does.
    """

    pod: Pod
    task: str
    index: int
    version: int
    retry: int = 0

    @property
    def place(self) -> tuple[str, int]:
        """The task and index that identify the pod's position."""
        return self.task, self.index

    @property
    def is_going(self) -> bool:
        """Whether the pod is being deleted."""
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def is_finished(self) -> bool:
        """Whether the pod has succeeded or failed."""
        return is_finished(self.pod)

    @property
    def was_stopped(self) -> bool:
        """Whether the pod failed only because the whole cluster was stopped."""
        return self.is_finished and ended_with_cluster(self.pod)

    @property
    def was_interrupted(self) -> bool:
        """Whether the platform ended the pod, so that it is recreated."""
        return self.is_finished and is_interrupted(self.pod)

    @property
    def is_unschedulable(self) -> bool:
        """Whether the scheduler has found no node for the pod."""
        placed = find_condition(self.pod, "PodScheduled")
        return not self.pod.spec.node_name and placed is not None and placed.status == "False"


def list_members(pods: Iterable[Pod]) -> list[Member]:
    """Return the pods that name their task and index as members, in the order of both."""
    parsed = [member for pod in pods if (member := _read_member(pod)) is not None]
    return sorted(parsed, key=lambda member: (*member.place, member.pod.metadata.uid))


def is_stale(member: Member, job: Job) -> bool:
    """Return whether a stop, a restart or a retry that the Job's status already counts replaces the pod."""
    status = job.status
    return member.version < status.version or 0 < member.retry <= status.retry_count


def _read_member(pod: Pod) -> Member | None:
    """Return the pod as a member; None if its annotations of task and index are missing or invalid."""
    annotations = pod.metadata.annotations
    index, version = annotations.get(TASK_INDEX, ""), annotations.get(JOB_VERSION, "")
    if TASK_SPEC not in annotations or not _is_number(index) or not _is_number(version):
        return None
    retry = annotations.get(REPLACED_BY_RETRY, "")
    return Member(pod, annotations[TASK_SPEC], int(index), int(version), int(retry) if _is_number(retry) else 0)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
