"""The record of a JobSet with the Jobs of its roles. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from muster.api.batch import COMPLETION_INDEX, Job, JobCondition
from muster.api.conditions import find, find_true
from muster.api.core import Pod, PodTemplateSpec
from muster.api.jobset import JOB_SET, GroupSchedulingStatus, JobSet, names
from muster.api.meta import Condition, controller_of
from muster.api.pods import rank_of
from muster.insight.record.pods import is_indexed
from muster.insight.record.record import GroupStart, JobEnd, JobRecord, RemoteCounts
from muster.jobs.job.conditions import CANCELLED
from muster.jobs.jobset.ordering import may_start
from muster.jobs.jobset.size import pods_of_role

# The reasons of a JobSet that failed because its Jobs failed; the Jobs' conditions then have the cause.
_FAILED_BY_JOBS = ("FailedJobs", "ReachedMaxRestarts", "FailJobSetFailurePolicyAction")


class JobSetRecord(JobRecord, frozen=True):
    """A JobSet with its current Jobs."""

    KIND = JOB_SET
    CONTROLLER = names.CONTROLLER_NAME

    source: JobSet

    @property
    def workers_by_role(self) -> list[int]:
        """The number of pods that each replicated job runs at the same time."""
        return list(map(pods_of_role, self.source.spec.replicated_jobs))

    @property
    def templates(self) -> list[PodTemplateSpec]:
        """The pod templates of the replicated jobs."""
        return [role.template.spec.template for role in self.source.spec.replicated_jobs]

    @property
    def may_fail(self) -> int | None:
        """The one Job's `backoffLimit`; None with a failure policy, which restarts the JobSet."""
        return super().may_fail if self.source.spec.failure_policy is None else None

    @property
    def deadline(self) -> int | None:
        """The longest `activeDeadlineSeconds` of the replicated jobs; None if one of them has none."""
        limits = [role.template.spec.active_deadline_seconds for role in self.source.spec.replicated_jobs]
        present = [limit for limit in limits if limit is not None]
        return max(present) if present and len(present) == len(limits) else None

    @property
    def restarts(self) -> int:
        """How many restarts of the whole JobSet its status counts."""
        return self.source.status.restarts

    @property
    def counted_restarts(self) -> int:
        """`status.restartsCountTowardsMax`."""
        return self.source.status.restarts_count_towards_max

    @property
    def job_restarts(self) -> int:
        """The sum of the restarts of the JobSet's single Jobs."""
        return sum(sum(role.job_restarts) for role in self.source.status.replicated_jobs_status)

    @property
    def restarting(self) -> bool:
        """Whether the condition Restarting is true."""
        return find_true(self.source.status.conditions, names.RESTARTING) is not None

    @property
    def restarts_together(self) -> bool:
        """Whether a failure policy restarts the JobSet after the first failure of a pod: no Job replaces one."""
        spec = self.source.spec
        limits = {role.template.spec.backoff_limit for role in spec.replicated_jobs}
        return spec.failure_policy is not None and limits == {0}

    @property
    def current_jobs(self) -> tuple[Job, ...]:
        """The Jobs of the current attempt of the whole JobSet."""
        attempt = str(self.restarts)
        return tuple(job for job in self.jobs if job.metadata.labels.get(names.RESTART_ATTEMPT) == attempt)

    @property
    def _group(self) -> GroupSchedulingStatus | None:
        return self.source.status.group_scheduling

    @property
    def group_start(self) -> GroupStart | None:
        """The progress of a group whose workers wait to start together (jobset KEP-498); None if no group waits."""
        group = self._group
        if group is None or not group.expected or group.released_epoch >= group.epoch:
            return None
        return GroupStart(group.started, group.expected)

    @property
    def held_up(self) -> str:
        """The message of a conflict over the ConfigMap that releases the group; "" if there is none."""
        ready = find(self.source.status.conditions, names.GROUP_SCHEDULING_READY)
        return ready.message if ready is not None and ready.reason == names.CONFIG_MAP_CONFLICT else ""

    @property
    def waiting(self) -> Mapping[str, str]:
        """The conditions of `dependsOn` that roles still wait for, by role."""
        records = {record.name: record for record in self.source.status.replicated_jobs_status}
        roles = {role.name: role for role in self.source.spec.replicated_jobs}
        return {
            name: " and ".join(f"{needed.name} is {needed.status.lower()}" for needed in role.depends_on)
            for name, role in roles.items()
            if not may_start(role, roles, records)
        }

    @property
    def start_timeout(self) -> int | None:
        """The seconds from the first start within which all workers must start; None without such a limit."""
        config = self.source.spec.group_scheduling_config
        return config.timeout_after_seconds if config is not None else None

    @property
    def start_by(self) -> datetime | None:
        """The moment by which all workers must have started; None without such a limit."""
        group = self._group
        if self.start_timeout is None or group is None or group.start_time is None:
            return None
        return group.start_time + timedelta(seconds=self.start_timeout)

    @property
    def failed_conditions(self) -> list[Condition | JobCondition]:
        """The JobSet's condition Failed, if it is true, followed by the Failed conditions of its Jobs."""
        own = find_true(self.source.status.conditions, names.FAILED)
        return [*([own] if own is not None else []), *super().failed_conditions]

    @property
    def end(self) -> JobEnd | None:
        """The JobSet's end; None before its end.

        If it failed because its Jobs failed, the reason and message are those of the Job that failed first.
        """
        conditions = self.source.status.conditions
        if find_true(conditions, names.COMPLETED) is not None:
            return JobEnd("Completed")
        failure = find_true(conditions, names.FAILED)
        if failure is None:
            return None
        if failure.reason == CANCELLED:
            return JobEnd("Cancelled")
        if failure.reason not in _FAILED_BY_JOBS:
            return JobEnd("Failed", failure.reason, failure.message, by_pods=False)
        ends = [
            (str(condition.last_transition_time), job, condition)
            for job in self.jobs
            if (condition := find_true(job.status.conditions, "Failed")) is not None
        ]
        if not ends:
            return JobEnd("Failed", failure.reason, failure.message, restarts=self.restarts)
        _, job, first = min(ends, key=lambda end: end[0])
        limit = job.spec.active_deadline_seconds
        return JobEnd("Failed", first.reason, first.message, limit, self.restarts, job=job.metadata.name)

    @property
    def pod_selector(self) -> str:
        """The selector of the label with the JobSet's name."""
        return f"{names.JOBSET_NAME}={self.metadata.name}"

    def owns(self, pod: Pod) -> bool:
        """Return whether the pod has a controller, and the label with the JobSet's UID.

        Owner references do not suffice, because a JobSet's Jobs may be deleted before their pods.
        """
        return (
            pod.metadata.labels.get(names.JOBSET_UID) == self.metadata.uid and controller_of(pod.metadata) is not None
        )

    def rank(self, pod: Pod) -> str:
        """Return the rank of a pod over all roles; the last part of its name if it has no index."""
        if not is_indexed(pod):
            return rank_of(pod)
        index, labels = pod.metadata.annotations[COMPLETION_INDEX], pod.metadata.labels
        return self._find_rank(labels.get(names.REPLICATED_JOB_NAME, ""), labels.get(names.JOB_INDEX, ""), index)

    def _count_elsewhere(self) -> RemoteCounts:
        statuses = {one.name: one for one in self.source.status.replicated_jobs_status}
        counts = [(role.each, statuses[role.name]) for role in self.roles if role.name in statuses]
        return RemoteCounts(
            sum(each * one.active for each, one in counts),
            sum(each * one.ready for each, one in counts),
            sum(each * one.succeeded for each, one in counts),
        )
