"""Compute the status of a Job: the counts of its pods, and its phase."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from muster.api.values import durations
from muster.api.volcano import (
    ABORTED,
    COMPLETED,
    FAILED,
    PENDING,
    PLUGINS,
    RUNNING,
    TERMINATED,
    Job,
    JobCondition,
    JobState,
    JobStatus,
    TaskState,
)
from muster.jobs.volcano.children import minimum_of
from muster.jobs.volcano.members import Member
from muster.jobs.volcano.pods import claim_name

FINISHED = frozenset({COMPLETED, FAILED, ABORTED, TERMINATED})


def with_counts(job: Job, members: Iterable[Member]) -> JobStatus:
    """Return the Job's status with the counts of its pods, and with the names of its other objects.

    Pods that are being deleted or were interrupted count only as Terminating.
    """
    numbers, tasks = Counter[str](), defaultdict[str, Counter[str]](Counter)
    for member in members:
        if member.is_going or member.was_interrupted:  # these pods are recreated
            numbers["Terminating"] += 1
            continue
        phase = member.pod.status.phase or "Pending"
        numbers[phase] += 1
        tasks[member.task][phase] += 1
    return replace(
        job.status,
        min_available=job.spec.min_available,
        task_status_count={task: TaskState(phase=dict(sorted(tasks[task].items()))) for task in sorted(tasks)},
        pending=numbers["Pending"],
        running=numbers["Running"],
        succeeded=numbers["Succeeded"],
        failed=numbers["Failed"],
        terminating=numbers["Terminating"],
        unknown=numbers["Unknown"],
        controlled_resources={f"plugin-{name}": name for name in sorted(job.spec.plugins) if name in PLUGINS}
        | {f"volume-pvc-{name}": name for name in (claim_name(job, place) for place in range(len(job.spec.volumes)))},
    )


def in_phase(job: Job, status: JobStatus, phase: str, now: datetime, reason: str = "", message: str = "") -> JobStatus:
    """Return the status changed to this phase, with the time of the change; unchanged if it has the phase already.

    At a final phase, the status also gets the running time of the Job.
    """
    if status.state.phase == phase:
        return status
    state = JobState(phase=phase, reason=reason, message=message, last_transition_time=now)
    earlier = tuple(condition for condition in status.conditions if condition.status != phase)
    status = replace(status, state=state, conditions=(*earlier, JobCondition(status=phase, last_transition_time=now)))
    created = job.metadata.creation_timestamp
    if phase not in FINISHED or created is None:
        return status
    took = (now - created) // timedelta(microseconds=1) * durations.MICROSECOND
    return replace(status, running_duration=durations.format(max(took, 0)))


def find_next_phase(job: Job, status: JobStatus) -> tuple[str, str]:
    """Return the phase that a pending or running Job should have, by the counts of its pods, and the reason for an end.

    The reason is "" if that phase is not an end.
    """
    spec = job.spec
    if status.state.phase == PENDING:
        return (RUNNING if status.running + status.succeeded + status.failed >= spec.min_available else PENDING), ""
    total = sum(task.replicas for task in spec.tasks)
    if not total:
        return RUNNING, ""
    if spec.min_success is not None and status.succeeded >= spec.min_success:
        return COMPLETED, ""
    if status.succeeded + status.failed == total:
        return _find_end(job, status)
    return (PENDING if status.pending > total - spec.min_available else RUNNING), ""


def _find_end(job: Job, status: JobStatus) -> tuple[str, str]:
    """Return the final phase of a Job all of whose pods have ended, and the reason."""
    spec = job.spec
    if spec.min_available >= sum(map(minimum_of, spec.tasks)):
        for task in spec.tasks:
            counted = status.task_status_count.get(task.name)
            succeeded, least = counted.phase.get("Succeeded", 0) if counted is not None else 0, minimum_of(task)
            if succeeded < least:
                return FAILED, f"{succeeded} of the {least} pods that must succeed of task {task.name} succeeded"
    if spec.min_success is not None:  # a Job that met it would have completed before
        return FAILED, f"{status.succeeded} of the {spec.min_success} pods that must succeed succeeded"
    if status.succeeded >= spec.min_available:
        return COMPLETED, ""
    return FAILED, f"{status.succeeded} of the {spec.min_available} pods that must succeed succeeded"
