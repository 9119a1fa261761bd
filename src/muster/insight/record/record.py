"""The record of one job: the facts that users see, in the same terms for every kind of job. Pure.

A `JobRecord` holds the job's object and its Jobs. Methods that differ by kind are defined in the class of the kind
(`job.py`, `jobset.py`). A method with a body here is right for a kind without such a feature. The ranks of a job number
its workers from 0, over all roles in their order.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import Struct

from muster.api.batch import INDEXED, Job, JobCondition
from muster.api.conditions import find_true
from muster.api.core import Pod, PodTemplateSpec
from muster.api.jobset import JobSet
from muster.api.jobset import names as jobset
from muster.api.kinds import Kind
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.api.meta import Condition, ObjectMeta
from muster.api.ours.elastic import ELASTIC_ANNOTATION, has_fixed_size
from muster.api.ours.trials import Array, cancelled_of
from muster.api.pods import rank_of
from muster.api.values.indexes import Indexes
from muster.insight.history.runs import Run
from muster.insight.quota.state import shorten_eviction
from muster.insight.record.pods import is_indexed
from muster.jobs.interruption import (
    INTERRUPTED,
    count_interruptions,
    count_suspensions,
    is_interrupted,
    last_interruption,
)
from muster.jobs.job.conditions import CANCELLED, FAILURE_TARGET, SUCCESS_CRITERIA_MET

if TYPE_CHECKING:
    from muster.runtime.containerlogs import KeptPod


class GroupStart(Struct, frozen=True, gc=False):
    """The progress of a group that starts together: how many workers have started, and how many are expected."""

    started: int
    expected: int


class Role(Struct, frozen=True, gc=False):
    """The workers of one replicated job of a JobSet, or all workers of a Job.

    name: the replicated job's name; "" for a Job.
    first: the rank of the role's first worker.
    jobs: the number of its Jobs, each with at most `each` ranks.
    wanted: the desired number of pods, or of successes.
    """

    name: str
    first: int
    jobs: int
    each: int
    wanted: int
    indexed: bool

    @property
    def end(self) -> int:
        """The rank after the role's last worker."""
        return self.first + self.jobs * self.each


class JobEnd(Struct, frozen=True):
    """The end of a job.

    reason, message: the reason and the message of the job's condition; if a JobSet failed because Jobs failed, those of
    the Job that failed first.
    deadline: that Job's time limit in seconds.
    restarts: how many times the JobSet restarted before.
    by_pods: whether failed pods may explain the end.
    job: the name of the Job whose condition this is; "" for none.
    """

    word: Literal["Completed", "Failed", "Cancelled"]
    reason: str = ""
    message: str = ""
    deadline: int | None = None
    restarts: int = 0
    by_pods: bool = True
    job: str = ""

    @property
    def out_of_time(self) -> bool:
        """Whether the job exceeded its time limit."""
        return self.reason == "DeadlineExceeded"


class RemoteCounts(Struct, frozen=True):
    """The pods of a job that runs in another cluster, as counted in the status of the manager's job."""

    active: int
    ready: int
    succeeded: int


class JobRecord(Struct, frozen=True, gc=False):
    """A job of any kind, with its known facts.

    source: the job's own object.
    jobs: its existing Jobs; for a Job, the Job itself.
    gone: whether the job was deleted, so that only `jobs` are left.
    array: the index of each rank's trial, for a sweep.
    past: the job's recorded run, if the job has ended and some of its pods are deleted.
    """

    KIND: ClassVar[Kind[Any]]
    CONTROLLER: ClassVar[str]

    source: Job | JobSet
    roles: tuple[Role, ...]
    jobs: tuple[Job, ...]
    gone: bool = False
    array: Array | None = None
    past: Run | None = None

    @property
    @abstractmethod
    def workers_by_role(self) -> list[int]:
        """How many pods each role runs at the same time."""

    @property
    @abstractmethod
    def templates(self) -> list[PodTemplateSpec]:
        """The templates of the job's pods, by role."""

    @property
    @abstractmethod
    def deadline(self) -> int | None:
        """The job's time limit in seconds; None if a part of the job has no limit."""

    @property
    @abstractmethod
    def end(self) -> JobEnd | None:
        """How the job ended; None before its end."""

    @property
    @abstractmethod
    def pod_selector(self) -> str:
        """The label selector of the job's pods; it may select pods of an earlier job of the same name, too."""

    @abstractmethod
    def owns(self, pod: Pod) -> bool:
        """Return whether the pod belongs to the job."""

    @abstractmethod
    def _count_elsewhere(self) -> RemoteCounts:
        """Return how many of the job's pods the status counts, for a job that runs in another cluster."""

    @property
    def may_fail(self) -> int | None:
        """The number of pods that may fail; None if there is no single number, or if a failure restarts the job."""
        return self.jobs[0].spec.backoff_limit if len(self.jobs) == 1 and self.array is None else None

    @property
    def restarts(self) -> int:
        """How many times the whole job restarted."""
        return 0

    @property
    def counted_restarts(self) -> int:
        """How many restarts count towards `maxRestarts`: restarts after a failure, not after an interruption."""
        return 0

    @property
    def job_restarts(self) -> int:
        """How many times single Jobs of the job restarted."""
        return 0

    @property
    def restarting(self) -> bool:
        """Whether the job's Jobs are being deleted to be created again."""
        return False

    @property
    def restarts_together(self) -> bool:
        """Whether the first failure of a pod restarts all pods of the job."""
        return False

    @property
    def current_jobs(self) -> tuple[Job, ...]:
        """The job's Jobs without those of an earlier attempt, which are being deleted."""
        return self.jobs

    @property
    def group_start(self) -> GroupStart | None:
        """The progress of a group whose workers wait to start together (jobset KEP-498); None if no group waits."""
        return None

    @property
    def held_up(self) -> str:
        """Why the workers cannot start together until a user helps; "" if they can."""
        return ""

    @property
    def waiting(self) -> Mapping[str, str]:
        """The conditions that roles still wait for before they start, by role; empty if there are none."""
        return {}

    @property
    def start_timeout(self) -> int | None:
        """The seconds from the first start within which all workers must start; None without such a limit."""
        return None

    @property
    def start_by(self) -> datetime | None:
        """The moment by which all workers must have started; None without such a limit."""
        return None

    @property
    def failed_conditions(self) -> list[Condition | JobCondition]:
        """The conditions that say that the job, or one of its Jobs, has failed."""
        return [one for job in self.jobs if (one := find_true(job.status.conditions, "Failed")) is not None]

    @property
    def kind(self) -> Kind[Any]:
        """The kind of the job's own object."""
        return self.KIND

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata of the job's own object."""
        return self.source.metadata

    @property
    def suspended(self) -> bool:
        """Whether the job is suspended and runs no pods."""
        return bool(self.source.spec.suspend)

    @property
    def manager(self) -> str:
        """The external controller that runs the job and writes its status; "" if Muster runs it."""
        name = self.source.spec.managed_by or self.CONTROLLER
        return "" if name in (self.CONTROLLER, MULTI_KUEUE_CONTROLLER) else name

    @property
    def has_fixed_size(self) -> bool:
        """Whether the workers have fixed ranks and a fixed WORLD_SIZE, so that a resize would break them."""
        # Kueue's annotation does not show that: a webhook adds it to every Indexed Job that queues.
        return ELASTIC_ANNOTATION not in self.metadata.annotations and any(map(has_fixed_size, self.templates))

    @property
    def wanted(self) -> int:
        """The desired number of pods; for a Job with completions, of successes."""
        return sum(role.wanted for role in self.roles)

    @property
    def max_ranks(self) -> int:
        """The largest number of ranks that the job can have."""
        return self.roles[-1].end if self.roles else 0

    @property
    def indexed(self) -> bool:
        """Whether the job's workers have ranks."""
        return all(role.indexed for role in self.roles)

    @property
    def remote_counts(self) -> RemoteCounts | None:
        """The pods' counts if MultiKueue runs the job in another cluster; None if its pods are in this cluster."""
        return self._count_elsewhere() if self.source.spec.managed_by == MULTI_KUEUE_CONTROLLER else None

    @property
    def succeeded(self) -> int:
        """How many pods the job's status counts as succeeded."""
        counts = self.remote_counts
        return counts.succeeded if counts is not None else sum(job.status.succeeded for job in self.jobs)

    @property
    def failed(self) -> int:
        """How many pods the job's status counts as failed, without pods of a Job that was interrupted as a whole."""
        return sum(job.status.failed for job in self.jobs if job.status.failed and not _is_job_interrupted(job))

    @property
    def succeeded_trials(self) -> Indexes:
        """The ranks of a sweep's trials that the job's status counts as succeeded."""
        return Indexes.parse(self.jobs[0].status.completed_indexes, self.wanted) if self.array else Indexes()

    @property
    def failed_trials(self) -> Indexes:
        """The ranks of a sweep's trials that have failed permanently."""
        if self.array is None:
            return Indexes()
        status = self.jobs[0].status
        return Indexes.parse(status.failed_indexes or "", self.wanted) - self.cancelled_trials

    @property
    def cancelled_trials(self) -> Indexes:
        """The ranks of a sweep's trials that a user cancelled before they succeeded."""
        if self.array is None:
            return Indexes()
        succeeded = Indexes.parse(self.jobs[0].status.completed_indexes, self.wanted)
        return cancelled_of(self.metadata.annotations, self.wanted) - succeeded

    @property
    def ended_trials(self) -> Indexes:
        """The ranks of a sweep's trials that succeeded, failed permanently or were cancelled."""
        if self.array is None:
            return Indexes()
        status = self.jobs[0].status
        succeeded = Indexes.parse(status.completed_indexes, self.wanted)
        return succeeded | Indexes.parse(status.failed_indexes or "", self.wanted) | self.cancelled_trials

    @property
    def interruptions(self) -> int:
        """How many times the platform interrupted the job; an interruption is not a failure."""
        return count_interruptions(self.source.status.conditions)

    @property
    def last_interruption(self) -> str:
        """The message of the job's latest interruption; "" without one."""
        return shorten_eviction(last_interruption(self.source.status.conditions))

    @property
    def is_cancelled(self) -> bool:
        """Whether a user has cancelled the job; its workers may still run."""
        return any(
            one.type in (FAILURE_TARGET, "Failed") and one.status == "True" and one.reason == CANCELLED
            for one in self.source.status.conditions
        )

    @property
    def suspensions(self) -> int:
        """How many of the interruptions were suspensions without a restart, such as a loss of quota."""
        return count_suspensions(self.source.status.conditions)

    def indexes_of(self, ranks: Iterable[int]) -> Array:
        """Return the indexes of the trials at these ranks, in ascending order."""
        return Array.of(sorted(ranks if self.array is None else map(self.array.__getitem__, ranks)))

    def ends_with(self, pods: Iterable[Pod]) -> bool:
        """Return whether the failures among these pods end one of the job's Jobs, so that no pod is replaced."""
        failures = Counter(
            owner.uid for pod in pods if pod.status.phase == "Failed" for owner in pod.metadata.owner_references
        )
        return any(_is_ended_by(job, failures[job.metadata.uid]) for job in self.current_jobs)

    def is_excused(self, pod: Pod) -> bool:
        """Return whether the end of a pod is not a failure: the platform ended the pod, or its whole Job."""
        owners = {one.uid for one in pod.metadata.owner_references}
        return is_interrupted(pod) or any(job.metadata.uid in owners and _is_job_interrupted(job) for job in self.jobs)

    def rank(self, pod: Pod) -> str:
        """Return the rank of a pod; the last part of its name if it has no index."""
        return rank_of(pod)

    def kept_rank(self, pod: "KeptPod") -> str:
        """Return the rank of a deleted pod whose logs the node still has."""
        return self._find_rank(pod.role, pod.job_index, pod.rank) if pod.role and pod.rank.isdecimal() else pod.rank

    def _find_rank(self, role_name: str, job_index: str, index: str) -> str:
        """Return the rank, over all roles, of the pod with this index in this Job of the role.

        Return the index if the role or the number of the Job is unknown.
        """
        role = next((one for one in self.roles if one.name == role_name), None)
        if role is None or not job_index.isdecimal():
            return index
        return str(role.first + int(job_index) * role.each + int(index))

    def role_of(self, rank: str) -> str:
        """Return the name of a rank's role; "" if the job has only one role, or no worker with this rank."""
        if len(self.roles) < 2 or not rank.isdecimal():
            return ""
        return next((role.name for role in self.roles if role.first <= int(rank) < role.end), "")

    def title_of(self, rank: str) -> str:
        """Return the prefix of a worker's log lines: `3`, `driver 0` if there are several roles, or a trial's index."""
        if self.array is not None:
            return str(self.array[int(rank)])
        return f"{self.role_of(rank)} {rank}".lstrip()

    def name_of_pod(self, pod: Pod) -> str:
        """Return a pod's display name: `rank 2`, `rank 2 (driver)`, `trial 7`, or `pod NAME` without a rank."""
        if not is_indexed(pod):
            return f"pod {pod.metadata.name}"
        return self._name_of_rank(self.rank(pod))

    def name_of_gone_pod(self, job_name: str, pod_name: str) -> str:
        """Return the display name of a deleted pod, as `name_of_pod`, from its name and the name of its Job.

        Return `pod NAME` if the rank is unknown.
        """
        job = next((one for one in self.jobs if one.metadata.name == job_name), None)
        index = pod_name.removeprefix(f"{job_name}-").rpartition("-")[0]
        if job is None or job.spec.completion_mode != INDEXED or not index.isdecimal():
            return f"pod {pod_name}"
        labels = job.metadata.labels
        return self._name_of_rank(
            self._find_rank(labels.get(jobset.REPLICATED_JOB_NAME, ""), labels.get(jobset.JOB_INDEX, ""), index)
        )

    def _name_of_rank(self, rank: str) -> str:
        if self.array is not None:
            return f"trial {self.array[int(rank)]}"
        role = self.role_of(rank)
        return f"rank {rank} ({role})" if role else f"rank {rank}"


def _is_job_interrupted(job: Job) -> bool:
    """Return whether a Job ends, or has ended, because of an interruption; its JobSet restarts it."""
    ends = (find_true(job.status.conditions, kind) for kind in (FAILURE_TARGET, "Failed"))
    return any(end is not None and end.reason == INTERRUPTED for end in ends)


def _is_ended_by(job: Job, failures: int) -> bool:
    """Return whether a Job has ended or must end, given this number of failed pods.

    It must end if its conditions announce that, or more pods failed than its backoffLimit.
    """
    if any(find_true(job.status.conditions, kind) for kind in (FAILURE_TARGET, SUCCESS_CRITERIA_MET)):
        return True
    limit = job.spec.backoff_limit
    return limit is not None and max(job.status.failed, failures) > limit
