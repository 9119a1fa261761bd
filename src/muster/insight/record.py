"""A job as people know it, whatever its kind: a Job, or a JobSet with the Jobs of its roles. Pure.

All that is said of jobs is said of this record. The ranks of a job count its workers from 0, over all roles in their
order.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from msgspec import Struct

from muster.api.batch import (
    COMPLETION_INDEX,
    INDEXED,
    JOB,
    JOB_CONTROLLER_NAME,
    JOB_NAME_LABEL,
    Job,
    JobCondition,
    pods_at_once,
)
from muster.api.conditions import find, find_true
from muster.api.core import ContainerStatus, Pod, PodTemplateSpec
from muster.api.jobset import JOB_SET, JobSet, ReplicatedJob
from muster.api.jobset import names as jobset
from muster.api.kinds import Kind
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.api.meta import Condition, ObjectMeta, controller_of
from muster.api.ours.elastic import bounds_of
from muster.api.ours.trials import Array, array_of
from muster.api.pods import rank_of
from muster.api.values.indexes import Indexes
from muster.jobs.job.conditions import FAILURE_TARGET, SUCCESS_CRITERIA_MET
from muster.jobs.jobset.ordering import may_start
from muster.jobs.jobset.size import pods_of_role
from muster.runtime.containerlogs import KeptPod

# Why a job has failed that a user has cancelled.
CANCELLED = "Cancelled"

# Why a JobSet fails because its Jobs do: then these say why.
_OF_ITS_JOBS = ("FailedJobs", "ReachedMaxRestarts", "FailJobSetFailurePolicyAction")


class Role(Struct, frozen=True):
    """Workers that are alike: those of a replicated job, or all of a Job.

    name: "" of a Job. first: the rank of the first of them. jobs: how many Jobs it has, with `each` ranks at the most.
    wanted: how many pods there should be, or how many that succeed.
    """

    name: str
    first: int
    jobs: int
    each: int
    wanted: int
    indexed: bool

    @property
    def end(self) -> int:
        """The rank behind its last."""
        return self.first + self.jobs * self.each


class JobEnd(Struct, frozen=True):
    """How a job has ended. reason, message: as the cluster says it, first of its Jobs if it failed by them.

    deadline: for how many seconds that Job may run. restarts: how many times the whole was restarted before.
    by_pods: pods that failed may say why. job: the Job whose words these are; "" if they are not of one.
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
        """Whether it ran into its time limit."""
        return self.reason == "DeadlineExceeded"


class Elsewhere(Struct, frozen=True):
    """How many pods of a job that runs in another cluster run there, are ready and have succeeded, as is told here."""

    active: int
    ready: int
    succeeded: int


class JobRecord(Struct, frozen=True):
    """One job.

    jobs: the Jobs that it consists of now, which may be itself. gone: only these are left, and go, too.
    array: the indexes of its trials by their ranks, if it is a sweep.
    """

    source: Job | JobSet
    roles: tuple[Role, ...]
    jobs: tuple[Job, ...]
    gone: bool = False
    array: Array | None = None

    @property
    def kind(self) -> Kind[Any]:
        """Job or JobSet."""
        return JOB if isinstance(self.source, Job) else JOB_SET

    @property
    def metadata(self) -> ObjectMeta:
        """Of the whole."""
        return self.source.metadata

    @property
    def suspended(self) -> bool:
        """Whether no pods run for the time being."""
        return bool(self.source.spec.suspend)

    @property
    def manager(self) -> str:
        """The controller of its own that runs it and says how it is; "" if it has none."""
        ours = JOB_CONTROLLER_NAME if isinstance(self.source, Job) else jobset.CONTROLLER_NAME
        named = self.source.spec.managed_by or ours
        return "" if named in (ours, MULTI_KUEUE_CONTROLLER) else named

    @property
    def wanted(self) -> int:
        """How many pods there should be, or how many that succeed."""
        return sum(role.wanted for role in self.roles)

    @property
    def workers(self) -> int:
        """How many pods it runs side by side."""
        if isinstance(self.source, Job):
            return pods_at_once(self.source.spec)
        return sum(map(pods_of_role, self.source.spec.replicated_jobs))

    @property
    def templates(self) -> list[PodTemplateSpec]:
        """Of its pods, by role."""
        if isinstance(self.source, Job):
            return [self.source.spec.template]
        return [role.template.spec.template for role in self.source.spec.replicated_jobs]

    @property
    def most(self) -> int:
        """How many workers it can have, all in all."""
        return self.roles[-1].end if self.roles else 0

    @property
    def indexed(self) -> bool:
        """Whether its workers have ranks."""
        return all(role.indexed for role in self.roles)

    @property
    def succeeded(self) -> int:
        """How many of its pods have, as far as they are counted."""
        told = self.elsewhere
        return told.succeeded if told is not None else sum(job.status.succeeded for job in self.jobs)

    @property
    def failed(self) -> int:
        """How many of its pods have, as far as they are counted."""
        return sum(job.status.failed for job in self.jobs)

    @property
    def may_fail(self) -> int | None:
        """How many of its pods may fail; None if that is not one number, or starts it anew."""
        if isinstance(self.source, JobSet) and self.source.spec.failure_policy is not None:
            return None
        return self.jobs[0].spec.backoff_limit if len(self.jobs) == 1 and self.array is None else None

    @property
    def failed_trials(self) -> Indexes:
        """The ranks of those that have failed for good."""
        return Indexes.parse(self.jobs[0].status.failed_indexes or "", self.wanted) if self.array else Indexes()

    def trials(self, ranks: Iterable[int]) -> Array:
        """The indexes of trials by their ranks, in ascending order."""
        return Array.of(sorted(ranks if self.array is None else map(self.array.__getitem__, ranks)))

    @property
    def deadline(self) -> int | None:
        """For how many seconds it may run; None if not all of it has a limit."""
        if isinstance(self.source, Job):
            return self.source.spec.active_deadline_seconds
        limits = [one.template.spec.active_deadline_seconds for one in self.source.spec.replicated_jobs]
        known = [limit for limit in limits if limit is not None]
        return max(known) if known and len(known) == len(limits) else None

    @property
    def restarts(self) -> int:
        """How many times the whole was restarted."""
        return self.source.status.restarts if isinstance(self.source, JobSet) else 0

    @property
    def elsewhere(self) -> Elsewhere | None:
        """What is told of it if MultiKueue has another cluster run it: its pods are not to be found here."""
        if self.source.spec.managed_by != MULTI_KUEUE_CONTROLLER:
            return None
        if isinstance(self.source, Job):
            status = self.source.status
            return Elsewhere(status.active, status.ready or 0, status.succeeded)
        told = {one.name: one for one in self.source.status.replicated_jobs_status}
        counts = [(role.each, told[role.name]) for role in self.roles if role.name in told]
        return Elsewhere(
            sum(each * one.active for each, one in counts),
            sum(each * one.ready for each, one in counts),
            sum(each * one.succeeded for each, one in counts),
        )

    @property
    def job_restarts(self) -> int:
        """How many times Jobs of it were restarted by themselves."""
        found = self.source.status.replicated_jobs_status if isinstance(self.source, JobSet) else ()
        return sum(sum(role.job_restarts) for role in found)

    @property
    def restarting(self) -> bool:
        """Whether its Jobs are about to be made anew."""
        said = self.source.status.conditions if isinstance(self.source, JobSet) else ()
        return find_true(said, jobset.RESTARTING) is not None

    def ends_with(self, pods: Iterable[Pod]) -> bool:
        """Whether a Job of it ends with what these pods came to: those that are missing do not come any more."""
        failed = Counter(
            one.uid for pod in pods if pod.status.phase == "Failed" for one in pod.metadata.owner_references
        )
        return any(_ends(job, failed[job.metadata.uid]) for job in self.jobs)

    @property
    def gathering(self) -> tuple[int, int] | None:
        """How many of its workers have started, and of how many, while all wait until all have."""
        group = self.source.status.group_scheduling if isinstance(self.source, JobSet) else None
        if group is None or not group.expected or group.released_epoch >= group.epoch:
            return None
        return group.started, group.expected

    @property
    def held_up(self) -> str:
        """Why its workers cannot start together before a person helps; "" if they can."""
        said = self.source.status.conditions if isinstance(self.source, JobSet) else ()
        ready = find(said, jobset.GROUP_SCHEDULING_READY)
        return ready.message if ready is not None and ready.reason == jobset.CONFIG_MAP_CONFLICT else ""

    @property
    def waiting(self) -> dict[str, str]:
        """By role that may not start yet, what it waits for."""
        if not isinstance(self.source, JobSet):
            return {}
        spec, status = self.source.spec, self.source.status
        records = {record.name: record for record in status.replicated_jobs_status}
        roles = {role.name: role for role in spec.replicated_jobs}
        return {
            name: " and ".join(f"{needed.name} is {needed.status.lower()}" for needed in role.depends_on)
            for name, role in roles.items()
            if not may_start(role, roles, records)
        }

    @property
    def start_timeout(self) -> int | None:
        """In how many seconds from the first start all have to have started; None if nothing says so."""
        asked = self.source.spec.group_scheduling_config if isinstance(self.source, JobSet) else None
        return asked.timeout_after_seconds if asked is not None else None

    @property
    def start_by(self) -> datetime | None:
        """Until when all have to have started; None if nothing says so."""
        group = self.source.status.group_scheduling if isinstance(self.source, JobSet) else None
        if self.start_timeout is None or group is None or group.start_time is None:
            return None
        return group.start_time + timedelta(seconds=self.start_timeout)

    @property
    def failed_conditions(self) -> list[Condition | JobCondition]:
        """What says that it has failed, or that Jobs of it have."""
        of_jobs = [one for job in self.jobs if (one := find_true(job.status.conditions, "Failed")) is not None]
        whole = find_true(self.source.status.conditions, jobset.FAILED) if isinstance(self.source, JobSet) else None
        return [whole, *of_jobs] if whole is not None else [*of_jobs]

    @property
    def end(self) -> JobEnd | None:
        """How it has ended, once it has."""
        return _end_of_job(self.source) if isinstance(self.source, Job) else _end_of_set(self.source, self.jobs)

    @property
    def pod_labels(self) -> str:
        """Selects its pods, and perhaps those of another one that had its name."""
        name = self.metadata.name
        return f"{JOB_NAME_LABEL if isinstance(self.source, Job) else jobset.JOBSET_NAME}={name}"

    def owns(self, pod: Pod) -> bool:
        """Whether the pod is one of its own; Jobs of a JobSet may be gone before their pods."""
        uid = self.metadata.uid
        if isinstance(self.source, Job):
            return any(owner.uid == uid for owner in pod.metadata.owner_references)
        return pod.metadata.labels.get(jobset.JOBSET_UID) == uid and controller_of(pod.metadata) is not None

    def rank(self, pod: Pod) -> str:
        """That of a pod; where it has no index, the last part of its name."""
        if isinstance(self.source, Job) or not is_indexed(pod):
            return rank_of(pod)
        index, labels = pod.metadata.annotations[COMPLETION_INDEX], pod.metadata.labels
        return self._rank_at(labels.get(jobset.REPLICATED_JOB_NAME, ""), labels.get(jobset.JOB_INDEX, ""), index)

    def kept_rank(self, pod: KeptPod) -> str:
        """That of a pod that is gone."""
        return self._rank_at(pod.role, pod.job_index, pod.rank) if pod.role and pod.rank.isdecimal() else pod.rank

    def _rank_at(self, role: str, job: str, index: str) -> str:
        """That of the pod with this index in this Job of the role."""
        found = next((one for one in self.roles if one.name == role), None)
        if found is None or not job.isdecimal():
            return index
        return str(found.first + int(job) * found.each + int(index))

    def who_was(self, job: str, pod: str) -> str:
        """The same as `who` of a pod that is gone, by its name and that of its Job."""
        found = next((one for one in self.jobs if one.metadata.name == job), None)
        index = pod.removeprefix(f"{job}-").rpartition("-")[0]
        if found is None or found.spec.completion_mode != INDEXED or not index.isdecimal():
            return f"pod {pod}"
        labels = found.metadata.labels
        rank = self._rank_at(labels.get(jobset.REPLICATED_JOB_NAME, ""), labels.get(jobset.JOB_INDEX, ""), index)
        return self._titled(rank)

    def role_of(self, rank: str) -> str:
        """The name of the role of a rank, if there are several."""
        if len(self.roles) < 2 or not rank.isdecimal():
            return ""
        return next((role.name for role in self.roles if role.first <= int(rank) < role.end), "")

    def title(self, rank: str) -> str:
        """What a worker's lines are marked with: its rank, after the role where there are several; a trial's index."""
        if self.array is not None:
            return str(self.array[int(rank)])
        return f"{self.role_of(rank)} {rank}".lstrip()

    def who(self, pod: Pod) -> str:
        """`rank 2`, `rank 2 (driver)`, or the name of the pod where it has no rank."""
        if not is_indexed(pod):
            return f"pod {pod.metadata.name}"
        return self._titled(self.rank(pod))

    def _titled(self, rank: str) -> str:
        if self.array is not None:
            return f"trial {self.array[int(rank)]}"
        role = self.role_of(rank)
        return f"rank {rank} ({role})" if role else f"rank {rank}"


def job_of(pod: Pod) -> tuple[str, str]:
    """UID and name of the job that a pod is of: its JobSet, else what controls it, else itself."""
    labels, owner = pod.metadata.labels, controller_of(pod.metadata)
    uid, name = labels.get(jobset.JOBSET_UID, ""), labels.get(jobset.JOBSET_NAME, "")
    if owner is not None and uid and name:
        return uid, name
    return (owner.uid, owner.name) if owner is not None else (pod.metadata.uid, pod.metadata.name)


def is_indexed(pod: Pod) -> bool:
    """Whether the pod has an index in its Job."""
    return pod.metadata.annotations.get(COMPLETION_INDEX, "").isdecimal()


def statuses(pod: Pod) -> list[ContainerStatus]:
    """Of the containers that run what the user asked for, the initial ones first: not of the one that waits."""
    both = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return [status for status in both if status.name != jobset.GROUP_SCHEDULING_INIT]


def has_joined(pod: Pod) -> bool:
    """Whether the pod waits for its group, having started."""
    waiting = [one for one in pod.status.init_container_statuses if one.name == jobset.GROUP_SCHEDULING_INIT]
    return any(one.state.running is not None or one.state.terminated is not None for one in waiting)


def is_late(pod: Pod) -> bool:
    """Whether its group waits for the pod: it has not started, as that is counted."""
    if all(one.name != jobset.GROUP_SCHEDULING_INIT for one in pod.spec.init_containers):
        return False
    return not has_joined(pod)


_DECIDED = (FAILURE_TARGET, SUCCESS_CRITERIA_MET)


def _ends(job: Job, failed: int) -> bool:
    if any(find_true(job.status.conditions, kind) for kind in _DECIDED):
        return True
    limit = job.spec.backoff_limit
    return limit is not None and max(job.status.failed, failed) > limit


def record_of(source: Job | JobSet, jobs: Iterable[Job] = ()) -> JobRecord:
    """The record of a Job; or of a JobSet, with those of these Jobs that are its own."""
    if isinstance(source, Job):
        array = array_of(source.metadata.annotations, source.spec.completions)
        return JobRecord(source, (_role_of_job(source),), (source,), array=array)
    roles: list[Role] = []
    for one in source.spec.replicated_jobs:
        roles.append(_role(one, roles[-1].end if roles else 0))
    uid = source.metadata.uid
    mine = (job for job in jobs if any(owner.uid == uid for owner in job.metadata.owner_references))
    return JobRecord(source, tuple(roles), tuple(sorted(mine, key=lambda job: job.metadata.name)))


def records_of(sets: Iterable[JobSet] | None, jobs: Sequence[Job]) -> list[JobRecord]:
    """All JobSets, and all Jobs that are of none. None: they may not be seen, and their Jobs are jobs of their own.

    Of a JobSet that is deleted its Jobs may be left for a while: together they are what is known of it.
    """
    by_owner: dict[str, list[Job]] = {}
    for job in jobs:
        for owner in job.metadata.owner_references:
            by_owner.setdefault(owner.uid, []).append(job)
    found = [record_of(one, by_owner.pop(one.metadata.uid, ())) for one in sets or ()]
    known = {one.metadata.uid for one in found}
    alone: list[Job] = []
    left: dict[str, list[Job]] = {}
    for job in jobs:
        above = controller_of(job.metadata)
        if sets is not None and above is not None and JOB_SET.is_of(above) and above.uid not in known:
            left.setdefault(above.uid, []).append(job)
        elif not known & {one.uid for one in job.metadata.owner_references}:
            alone.append(job)
    return [*found, *map(_remains, left.values()), *map(record_of, alone)]


def _remains(jobs: Sequence[Job]) -> JobRecord:
    """What is left of a JobSet."""
    first = jobs[0].metadata
    owner = controller_of(first)
    assert owner is not None, "they are its Jobs"
    meta = ObjectMeta(
        name=owner.name, namespace=first.namespace, uid=owner.uid, creation_timestamp=first.creation_timestamp
    )
    return JobRecord(JobSet(metadata=meta), tuple(map(_role_of_job, jobs)), tuple(jobs), gone=True)


def _role_of_job(job: Job) -> Role:
    spec, bounds = job.spec, bounds_of(job.metadata.annotations)
    wanted = spec.completions if spec.completions is not None else spec.parallelism or 0
    most = max(bounds.most if bounds is not None else 1, spec.parallelism or 1, spec.completions or 1)
    return Role("", 0, 1, most, wanted, spec.completion_mode == INDEXED)


def _role(one: ReplicatedJob, first: int) -> Role:
    spec = one.template.spec
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    each = spec.completions if spec.completions is not None else parallelism
    indexed = spec.completion_mode in (None, INDEXED)
    return Role(one.name, first, one.replicas, max(each, 1), one.replicas * each, indexed)


def _end_of_job(job: Job) -> JobEnd | None:
    for condition in job.status.conditions:
        if condition.status == "True" and condition.type in ("Complete", "Failed"):
            if condition.reason == CANCELLED:
                return JobEnd("Cancelled")
            word: Literal["Completed", "Failed"] = "Completed" if condition.type == "Complete" else "Failed"
            limit = job.spec.active_deadline_seconds
            return JobEnd(word, condition.reason, condition.message, limit, job=job.metadata.name)
    return None


def _end_of_set(source: JobSet, jobs: Iterable[Job]) -> JobEnd | None:
    conditions = source.status.conditions
    if find_true(conditions, jobset.COMPLETED) is not None:
        return JobEnd("Completed")
    failed = find_true(conditions, jobset.FAILED)
    if failed is None:
        return None
    if failed.reason == CANCELLED:
        return JobEnd("Cancelled")
    if failed.reason not in _OF_ITS_JOBS:
        return JobEnd("Failed", failed.reason, failed.message, by_pods=False)
    ends = [
        (str(condition.last_transition_time), job, condition)
        for job in jobs
        if (condition := find_true(job.status.conditions, "Failed")) is not None
    ]
    if not ends:
        return JobEnd("Failed", failed.reason, failed.message, restarts=source.status.restarts)
    _, job, first = min(ends, key=lambda end: end[0])
    limit = job.spec.active_deadline_seconds
    return JobEnd("Failed", first.reason, first.message, limit, source.status.restarts, job=job.metadata.name)
