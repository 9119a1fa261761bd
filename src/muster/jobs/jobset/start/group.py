"""Determine which pods start together as a group, and which of them have started.

Each start of the group has an *epoch*: a number that the pods of that start carry as an annotation. A release of one
epoch has no effect on another, so a restart or a resume never starts on an old release. Epochs are kept in the JobSet's
status, and only the stored epoch counts. So the status from `begin_next_epoch` is stored first. A later decision, which
reads the new epoch, then stops, creates or resumes Jobs.
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
from muster.api.pods import is_active, job_reference
from muster.api.values.indexes import Indexes
from muster.jobs.job.conditions import finish

FIRST_EPOCH = 1
_EPOCH = re.compile("[0-9]{1,10}").fullmatch
_INDEX = re.compile("0|[1-9][0-9]{0,9}").fullmatch


GroupKey = tuple[str, str, int]  # the namespace and UID of a JobSet, and the epoch


class Member(Struct, frozen=True):
    """A pod of a group that has started, identified by its own metadata.

    job: the Job's UID, which identifies the Job as one of the JobSet's.
    index: the completion index; for a Job without indexes the pod's UID.
    """

    group: GroupKey
    job: str
    index: str


def find_target_roles(spec: JobSetSpec) -> tuple[ReplicatedJob, ...]:
    """Return the roles whose pods form the group; none if no pods wait for each other."""
    if spec.group_scheduling_config is None:
        return ()
    chosen = spec.group_scheduling_config.target_replicated_jobs
    return tuple(role for role in spec.replicated_jobs if not chosen or role.name in chosen)


def is_target(spec: JobSetSpec, role: str) -> bool:
    """Return whether the pods of a role are part of the group that starts together."""
    return any(target.name == role for target in find_target_roles(spec))


def count_expected(jobset: JobSet, jobs: Iterable[Job]) -> dict[str, int]:
    """Return how many pods have to start, by the name of each Job of the group, from the spec.

    jobs: the existing Jobs. Pods that succeeded in an earlier epoch do not start again and do not count.
    """
    jobs_by_name = {job.metadata.name: job for job in jobs}
    pods_by_job = {}
    for role in find_target_roles(jobset.spec):
        for index in range(role.replicas):
            name = job_name(jobset, role.name, index)
            pods_by_job[name] = _count_pods(role.template.spec, jobs_by_name.get(name))
    return pods_by_job


def _count_pods(spec: JobSpec, job: Job | None) -> int:
    if job is None:
        return pods_at_once(spec)
    if finish(job) is not None:
        return 0
    if spec.completion_mode != INDEXED:
        return pods_at_once(spec, job.status.succeeded)
    return pods_at_once(spec, len(Indexes.parse(job.status.completed_indexes, spec.completions or 0)))


def count_arrived(jobset: JobSet, seen: Mapping[str, Collection[str]]) -> dict[str, int]:
    """Return how many of the expected pods have started, by the name of each Job.

    seen: the indexes of started pods, by the name of each Job. Indexes beyond the current size of a Job do not count.
    """
    pods_by_job = {}
    for role in find_target_roles(jobset.spec):
        for index in range(role.replicas):
            name = job_name(jobset, role.name, index)
            pods_by_job[name] = _count_members(role.template.spec, seen.get(name, ()))
    return pods_by_job


def _count_members(spec: JobSpec, seen: Collection[str]) -> int:
    if spec.completion_mode != INDEXED or spec.completions is None:
        return len(seen)
    return sum(1 for index in seen if _INDEX(index) and int(index) < spec.completions)


def find_lost_indexes(jobset: JobSet, jobs: Mapping[str, Job]) -> dict[str, Indexes]:
    """Return the indexes that failed permanently, by the name of each unfinished Job that has such indexes.

    No pod will start for these indexes.
    """
    indexes_by_job = {}
    for role in find_target_roles(jobset.spec):
        for index in range(role.replicas):
            job = jobs.get(job_name(jobset, role.name, index))
            if job is not None and job.status.failed_indexes and finish(job) is None:
                completions = role.template.spec.completions or 0
                indexes_by_job[job.metadata.name] = Indexes.parse(job.status.failed_indexes, completions)
    return {name: indexes for name, indexes in indexes_by_job.items() if indexes}


def find_started_member(pod: Pod) -> Member | None:
    """Return a pod as a member of its group, if the pod has started: its barrier runs or has opened. Otherwise None."""
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
    """Return the stored state of the start; the first epoch if none is stored."""
    return jobset.status.group_scheduling or GroupSchedulingStatus(epoch=FIRST_EPOCH)


def epoch_of(jobset: JobSet) -> int:
    """Return the number of the group's current start, which Jobs get that are created or resumed now."""
    return status_of(jobset).epoch


def begin_next_epoch(jobset: JobSet) -> GroupSchedulingStatus | None:
    """Return the group's status for a new start, with a new epoch.

    If no pods wait for each other, return the stored status, or None if there is none. A restart of the JobSet writes
    the new status in the same write as its restart count. A suspension writes it if pods have started in the current
    epoch (`is_used`).
    """
    if jobset.spec.group_scheduling_config is None:
        return jobset.status.group_scheduling
    before = status_of(jobset)
    return GroupSchedulingStatus(epoch=before.epoch + 1, released_epoch=before.released_epoch)


def is_used(jobset: JobSet) -> bool:
    """Return whether pods have started in the current epoch. If they are stopped, no other pods may start in it.

    A suspended JobSet gets a new epoch before any of its Jobs is suspended. So all Jobs start together when the JobSet
    is resumed, even if some restarted in the meantime.
    """
    status = status_of(jobset)
    used = status.start_time is not None or status.released_epoch == status.epoch
    return used and jobset.spec.group_scheduling_config is not None


def is_of_earlier_start(jobset: JobSet, role: str, job: Job) -> bool:
    """Return whether the pods of a Job wait for an older epoch. Such a Job, if it runs, has to be stopped first."""
    epoch = job.spec.template.metadata.annotations.get(names.GROUP_SCHEDULING_EPOCH)
    return is_target(jobset.spec, role) and epoch != str(epoch_of(jobset))


def is_failing(job: Job) -> bool:
    """Return whether the Job has failed, or is about to fail."""
    return is_true(job.status.conditions, "Failed") or is_true(job.status.conditions, "FailureTarget")


def report_progress(status: GroupSchedulingStatus, count: int, total: int) -> GroupSchedulingStatus:
    """Return the status with the progress, rounded to tenths of the group so that writes stay few."""
    step = max(1, total // 10)
    if status.expected == total and count // step == status.started // step and count < total:
        return status
    return replace(status, started=count, expected=total)
