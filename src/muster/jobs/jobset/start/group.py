"""Who is in the group that starts together, and which of its pods have started.

Each start of the group has an *epoch*: a number that the pods of that start carry as an annotation. What is said to one
epoch (it may start) means nothing to another, so a restart or a resume never begins on an old word. Epochs are kept in
the JobSet's status and only what stands there counts: `renewed` is written first, and Jobs are made or resumed in it by
a later look, which has read it.
"""

import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from muster.api.batch import COMPLETION_INDEX, Job, JobSpec
from muster.api.conditions import is_true
from muster.api.core import Pod
from muster.api.jobset import GroupSchedulingStatus, JobSet, JobSetSpec, ReplicatedJob, names
from muster.api.jobset.naming import job_name
from muster.api.pods import is_active, job_reference
from muster.jobs.job.conditions import finish

FIRST_EPOCH = 1
_EPOCH = re.compile("[0-9]{1,10}").fullmatch


class Member(Struct, frozen=True):
    """One pod of a group that has started: of which group, which epoch, and which of its pods it is.

    index: its completion index; of a Job without indexes the pod's UID.
    """

    jobset_uid: str
    epoch: int
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
    if job is not None and finish(job) is not None:
        return 0
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None:
        return parallelism
    succeeded = job.status.succeeded if job is not None else 0
    return max(0, min(parallelism, spec.completions - succeeded))


def started(pod: Pod) -> Member | None:
    """Which member of a group the pod is, if it has started: its barrier runs, or has let it through."""
    label, epoch = pod.metadata.labels.get(names.JOBSET_UID), pod.metadata.annotations.get(names.GROUP_SCHEDULING_EPOCH)
    if not label or not epoch or not _EPOCH(epoch) or not is_active(pod) or not _has_reached_barrier(pod):
        return None
    job = job_reference(pod)
    if job is None:
        return None
    return Member(label, int(epoch), job.name, pod.metadata.annotations.get(COMPLETION_INDEX) or pod.metadata.uid)


def _has_reached_barrier(pod: Pod) -> bool:
    for status in pod.status.init_container_statuses:
        if status.name == names.GROUP_SCHEDULING_INIT:
            ended = status.state.terminated
            return status.state.running is not None or (ended is not None and ended.exit_code == 0)
    return False


def standing_of(jobset: JobSet) -> GroupSchedulingStatus:
    """How far the start is, as it stands in the status; the first epoch if nothing does."""
    return jobset.status.group_scheduling or GroupSchedulingStatus(epoch=FIRST_EPOCH)


def epoch_of(jobset: JobSet) -> int:
    """The epoch in which Jobs are made and resumed."""
    return standing_of(jobset).epoch


def renewed(jobset: JobSet) -> GroupSchedulingStatus | None:
    """What the status says once the group is to start anew; None if nothing waits.

    For a restart of the JobSet, in the write that counts it, and for a resume (`resumes_anew`). The look that wants it
    makes and resumes no Jobs.
    """
    if jobset.spec.group_scheduling_config is None:
        return jobset.status.group_scheduling
    before = standing_of(jobset)
    return GroupSchedulingStatus(epoch=before.epoch + 1, released_epoch=before.released_epoch)


def resumes_anew(jobset: JobSet, jobs: Iterable[Job]) -> bool:
    """Whether the Jobs of the group, all of them suspended, must not be resumed before the group has a new epoch.

    They need one if pods have started in theirs. Where only some are suspended, the group goes on: theirs is the same.
    """
    roles = {target.name for target in targets(jobset.spec)}
    waiting = [job for job in jobs if job.metadata.labels.get(names.REPLICATED_JOB_NAME) in roles and not finish(job)]
    standing = standing_of(jobset)
    used = standing.start_time is not None or standing.released_epoch >= standing.epoch
    if not used or not waiting or not all(job.spec.suspend for job in waiting):
        return False
    return any(_epoch_of(job) == str(standing.epoch) for job in waiting)


def _epoch_of(job: Job) -> str:
    return job.spec.template.metadata.annotations.get(names.GROUP_SCHEDULING_EPOCH, "")


def annotations(jobset: JobSet, role: str) -> dict[str, str]:
    """What the pods of a role are annotated with when its Jobs are made or resumed."""
    return {names.GROUP_SCHEDULING_EPOCH: str(epoch_of(jobset))} if is_target(jobset.spec, role) else {}


def is_failing(job: Job) -> bool:
    """Whether the Job has failed, or is about to have."""
    return is_true(job.status.conditions, "Failed") or is_true(job.status.conditions, "FailureTarget")


def told(standing: GroupSchedulingStatus, count: int, total: int) -> GroupSchedulingStatus:
    """The standing with the numbers as far as people are told: by tenths of the group, so that writes stay few."""
    step = max(1, total // 10)
    if standing.expected == total and count // step == standing.started // step and count < total:
        return standing
    return replace(standing, started=count, expected=total)
