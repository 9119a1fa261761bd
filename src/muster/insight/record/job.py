"""The record of a Job. Pure."""

from typing import Literal

from muster.api.batch import JOB, JOB_CONTROLLER_NAME, JOB_NAME_LABEL, Job, pods_at_once
from muster.api.core import Pod, PodTemplateSpec
from muster.insight.record.record import JobEnd, JobRecord, RemoteCounts
from muster.jobs.job.conditions import CANCELLED


class PlainJobRecord(JobRecord, frozen=True):
    """A Job that is not part of a JobSet."""

    KIND = JOB
    CONTROLLER = JOB_CONTROLLER_NAME

    source: Job

    @property
    def workers_by_role(self) -> list[int]:
        """The Job's parallelism, or its completions if these are fewer."""
        return [pods_at_once(self.source.spec)]

    @property
    def templates(self) -> list[PodTemplateSpec]:
        """The Job's one template."""
        return [self.source.spec.template]

    @property
    def deadline(self) -> int | None:
        """The Job's `activeDeadlineSeconds`; None if it has none."""
        return self.source.spec.active_deadline_seconds

    @property
    def end(self) -> JobEnd | None:
        """The Job's end, by its conditions; None before its end."""
        for condition in self.source.status.conditions:
            if condition.status == "True" and condition.type in ("Complete", "Failed"):
                if condition.reason == CANCELLED:
                    return JobEnd("Cancelled")
                word: Literal["Completed", "Failed"] = "Completed" if condition.type == "Complete" else "Failed"
                return JobEnd(word, condition.reason, condition.message, self.deadline, job=self.metadata.name)
        return None

    @property
    def pod_selector(self) -> str:
        """The selector of the label with the Job's name."""
        return f"{JOB_NAME_LABEL}={self.metadata.name}"

    def owns(self, pod: Pod) -> bool:
        """Return whether the Job is an owner of the pod."""
        return any(owner.uid == self.metadata.uid for owner in pod.metadata.owner_references)

    def _count_elsewhere(self) -> RemoteCounts:
        status = self.source.status
        return RemoteCounts(status.active, status.ready or 0, status.succeeded)
