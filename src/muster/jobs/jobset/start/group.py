"""Who is in the group that starts together, and which of its pods have started.

Each start of the group has an *epoch*: a number that the pods of that start carry as an annotation. What is said to one
epoch (it may start) means nothing to another, so a restart or a resume never begins on an old word. Epochs are kept in
the JobSet's status and only what stands there counts: `renewed` is written first, and Jobs are stopped, made or resumed
by a later look, which has read it.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from muster.api.batch import COMPLETION_INDEX, INDEXED, Job, JobSpec, pods_at_once
from muster.api.conditions import is_true
from muster.api.core import Pod
from muster.api.jobset import GroupSchedulingStatus, JobSet, JobSetSpec, ReplicatedJob, names
from muster.api.jobset.naming import job_name
from muster.api.pods import ended_with_cluster, is_active, job_reference
from muster.api.values.indexes import Indexes
from muster.jobs.job.conditions import finish

FIRST_EPOCH = 1
_EPOCH = re.compile("[0-9]{1,10}").fullmatch
_INDEX = re.compile("0|[1-9][0-9]{0,9}").fullmatch


GroupKey = tuple[str, str, int]  # a JobSet's namespace and UID, and the epoch


class Member(Struct, frozen=True):
    """One pod of a group that has started, as it says itself: of which group, of which Job, and which of its pods.

    job: the Job's UID: whether it is one of the JobSet's is known by that.
    index: its completion index; of a Job without indexes the pod's UID.
    """

    group: GroupKey
    job: str
    index: str


def targets(spec: JobSetSpec) -> tuple[ReplicatedJob, ...]:
    """The roles whose pods are the group; none if nothing waits."""
    if spec.group_scheduling_config is None:
        return ()
    chosen = spec.group_scheduling_config.target_replicated_jobs
    return tuple(role for role in spec.replicated_jobs if not chosen or role.name in chosen)


def is_target(spec: JobSetSpec, role: str) -> bool:
    """Whether the pods of a role wait for the group."""
    return any(target.name == role for target in targets(spec))


def expected(jobset: JobSet, jobs: Iterable[Job]) -> dict[str, int]:
    """How many pods have to start, by the name of each Job of the group, from the spec.

    jobs: those that there are; what has succeeded before, in an earlier epoch, will not start again.
    """
    known = {job.metadata.name: job for job in jobs}
    found = {}
    for role in targets(jobset.spec):
        for index in range(role.replicas):
            name = job_name(jobset, role.name, index)
            found[name] = _pods(role.template.spec, known.get(name))
    return found


def _pods(spec: JobSpec, job: Job | None) -> int:
    if job is None:
        return pods_at_once(spec)
    if finish(job) is not None:
        return 0
    if spec.completion_mode != INDEXED:
        return pods_at_once(spec, job.status.succeeded)
    return pods_at_once(spec, len(Indexes.parse(job.status.completed_indexes, spec.completions or 0)))


def arrived(jobset: JobSet, seen: Mapping[str, Collection[str]]) -> dict[str, int]:
    """How many of the expected pods have started, by the name of each Job.

    seen: the indexes of those that have, by the same. One that a shrink takes away stands in for none that stays.
    """
    found = {}
    for role in targets(jobset.spec):
        for index in range(role.replicas):
            name = job_name(jobset, role.name, index)
            found[name] = _members(role.template.spec, seen.get(name, ()))
    return found


def _members(spec: JobSpec, seen: Collection[str]) -> int:
    if spec.completion_mode != INDEXED or spec.completions is None:
        return len(seen)
    return sum(1 for index in seen if _INDEX(index) and int(index) < spec.completions)


def lost(jobset: JobSet, jobs: Mapping[str, Job]) -> dict[str, Indexes]:
    """The indexes that have failed for good, by the name of each Job that has any and goes on: none starts for them."""
    found = {}
    for role in targets(jobset.spec):
        for index in range(role.replicas):
            job = jobs.get(job_name(jobset, role.name, index))
            if job is not None and job.status.failed_indexes and finish(job) is None:
                completions = role.template.spec.completions or 0
                found[job.metadata.name] = Indexes.parse(job.status.failed_indexes, completions)
    return {name: indexes for name, indexes in found.items() if indexes}


def started(pod: Pod) -> Member | None:
    """Which member of a group the pod is, if it has started: its barrier runs, or has let it through."""
    label, epoch = pod.metadata.labels.get(names.JOBSET_UID), pod.metadata.annotations.get(names.GROUP_SCHEDULING_EPOCH)
    if not label or not epoch or not _EPOCH(epoch) or not is_active(pod) or not _has_reached_barrier(pod):
        return None
    job = job_reference(pod)
    if job is None:
        return None
    index = pod.metadata.annotations.get(COMPLETION_INDEX) or pod.metadata.uid
    return Member((pod.metadata.namespace, label, int(epoch)), job.uid, index)


def _has_reached_barrier(pod: Pod) -> bool:
    for status in pod.status.init_container_statuses:
        if status.name == names.GROUP_SCHEDULING_INIT:
            ended = status.state.terminated
            return status.state.running is not None or (ended is not None and ended.exit_code == 0)
    return False


def status_of(jobset: JobSet) -> GroupSchedulingStatus:
    """How far the start is, as it stands in the status; the first epoch if nothing does."""
    return jobset.status.group_scheduling or GroupSchedulingStatus(epoch=FIRST_EPOCH)


def epoch_of(jobset: JobSet) -> int:
    """The epoch in which Jobs are made and resumed."""
    return status_of(jobset).epoch


def renewed(jobset: JobSet) -> GroupSchedulingStatus | None:
    """What the status says once the group is to start anew; None if nothing waits.

    For a restart of the JobSet, in the write that counts it, and for a stop (`is_used`, `is_stopped`).
    """
    if jobset.spec.group_scheduling_config is None:
        return jobset.status.group_scheduling
    before = status_of(jobset)
    return GroupSchedulingStatus(epoch=before.epoch + 1, released_epoch=before.released_epoch)


def is_used(jobset: JobSet) -> bool:
    """Whether pods have started in the present epoch: nothing else may start in it once they have been stopped.

    A JobSet that is suspended has a new one before any of its Jobs is. So what becomes of the Jobs meanwhile
    changes nothing: all start together when it is resumed.
    """
    status = status_of(jobset)
    used = status.start_time is not None or status.released_epoch == status.epoch
    return used and jobset.spec.group_scheduling_config is not None


def is_stopped(jobset: JobSet, pods: Iterable[Pod]) -> bool:
    """Whether the group ended as the whole cluster was stopped: then those that follow start together, as it did.

    Where others of it run on, elsewhere or left behind, what ended is replaced, and goes on with them.
    pods: all of the JobSet. Known before any is made for those that ended: what follows says no less.
    """
    epoch = str(epoch_of(jobset))
    group = [pod for pod in pods if pod.metadata.annotations.get(names.GROUP_SCHEDULING_EPOCH) == epoch]
    stopped = [ended_with_cluster(pod) for pod in group]
    runs = any(started(pod) is not None and not ends for pod, ends in zip(group, stopped, strict=True))
    return is_used(jobset) and any(stopped) and not runs


def is_of_earlier_start(jobset: JobSet, role: str, job: Job) -> bool:
    """Whether the pods of a Job wait for what is not said any more. One that runs has to be stopped first."""
    epoch = job.spec.template.metadata.annotations.get(names.GROUP_SCHEDULING_EPOCH)
    return is_target(jobset.spec, role) and epoch != str(epoch_of(jobset))


def is_failing(job: Job) -> bool:
    """Whether the Job has failed, or is about to have."""
    return is_true(job.status.conditions, "Failed") or is_true(job.status.conditions, "FailureTarget")


def told(status: GroupSchedulingStatus, count: int, total: int) -> GroupSchedulingStatus:
    """The status with the numbers as far as people are told: by tenths of the group, so that writes stay few."""
    step = max(1, total // 10)
    if status.expected == total and count // step == status.started // step and count < total:
        return status
    return replace(status, started=count, expected=total)
