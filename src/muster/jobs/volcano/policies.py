"""Find the events of a Job's pods, and the action that its policies request.

Events are read from the state of the pods, not from changes, so a controller that restarts finds them again. After an
event was handled, its pods no longer count: they are stale, or the Job is in another phase.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from muster.api.pods import restart_count
from muster.api.values.durations import parse_seconds
from muster.api.volcano import (
    ANY_EVENT,
    JOB_UNKNOWN,
    POD_EVICTED,
    POD_FAILED,
    POD_PENDING,
    RESTART_POD,
    RESTART_TASK,
    TASK_COMPLETED,
    TASK_FAILED,
    Job,
    LifecyclePolicy,
    TaskSpec,
)
from muster.jobs.interruption import is_interrupted
from muster.jobs.volcano.members import Member


class JobEvent(Struct, frozen=True):
    """An event that happened to a Job.

    task: the task that the event concerns; "" for the whole Job.
    pod: the pod that the event concerns; "" if it concerns no single pod.
    exit_code: the exit code of the first container of a failed pod; 0 if unknown.
    since: when the event began; set only for events with a timeout.
    interrupted: whether the platform ended the pod, so that restarting the Job or that pod uses up no retry.
    """

    event: str
    message: str
    task: str = ""
    pod: str = ""
    exit_code: int = 0
    since: datetime | None = None
    interrupted: bool = False


class RequestedAction(Struct, frozen=True):
    """The action that the Job's policies request now.

    action: the name of the action; "" for no action.
    wake_at: when the next timeout of a policy ends; None if no timeout runs.
    """

    action: str = ""
    occurrence: JobEvent | None = None
    wake_at: datetime | None = None


def list_occurrences(job: Job, present: Sequence[Member], lost: Iterable[Member]) -> Iterator[JobEvent]:
    """Yield the events of the existing pods, and an event for each pod that was deleted without a grace period.

    present: the pods, without stale ones (`is_stale`).
    lost: the pods that were deleted without a grace period.
    """
    yield from map(_make_eviction, lost)
    for member in present:
        yield from _list_pod_occurrences(member)
    for task in job.spec.tasks:
        yield from _list_task_occurrences(task, [member for member in present if member.task == task.name])
    yield from _list_job_occurrences(job, present)


def judge(job: Job, happened: Iterable[JobEvent], now: datetime) -> RequestedAction:
    """Return the action for the first of these events that a policy covers and whose timeout is over.

    If there is none, the result only has the time at which the next timeout ends.
    """
    tasks = {task.name: task.policies for task in job.spec.tasks}
    wake_at: datetime | None = None
    for occurrence in happened:
        policies = (*tasks.get(occurrence.task, ()), *job.spec.policies)
        policy = next((one for one in policies if _covers(one, occurrence)), None)
        if policy is None:
            continue
        due = _find_due_time(policy, occurrence)
        if due is None or due <= now:
            return RequestedAction(policy.action, occurrence)
        wake_at = due if wake_at is None else min(wake_at, due)
    return RequestedAction(wake_at=wake_at)


def events_of(policy: LifecyclePolicy) -> tuple[str, ...]:
    """Return the events that a policy names."""
    return tuple(dict.fromkeys((*policy.events, *((policy.event,) if policy.event else ()))))


def _covers(policy: LifecyclePolicy, occurrence: JobEvent) -> bool:
    if occurrence.interrupted and policy.action == RESTART_POD:  # the pod is recreated anyway
        return False
    if (policy.action == RESTART_POD and not occurrence.pod) or (policy.action == RESTART_TASK and not occurrence.task):
        return False
    if policy.exit_code is not None:
        return policy.exit_code == occurrence.exit_code and occurrence.event == POD_FAILED
    events = events_of(policy)
    if occurrence.event == POD_PENDING:  # `*` does not cover pods that wait, because it has no timeout
        return POD_PENDING in events
    return occurrence.event in events or ANY_EVENT in events


def _find_due_time(policy: LifecyclePolicy, occurrence: JobEvent) -> datetime | None:
    if not policy.timeout or occurrence.since is None:
        return None
    return occurrence.since + timedelta(seconds=parse_seconds(policy.timeout))


def _list_pod_occurrences(member: Member) -> Iterator[JobEvent]:
    name, phase = member.pod.metadata.name, member.pod.status.phase
    if member.was_stopped:  # stopped with the whole cluster: the pod is recreated, and no policy applies
        return
    if is_interrupted(member.pod):  # the exit codes were caused by the platform
        yield _make_eviction(member)
        return
    if member.is_going and phase != "Succeeded":
        yield _make_eviction(member)
    if phase == "Failed":
        code = _read_exit_code(member)
        ended = f" with exit code {code}" if code else ""
        yield JobEvent(POD_FAILED, f"pod {name} failed{ended}", member.task, name, code)
    elif phase == "Pending" and not member.is_going:
        since = member.pod.metadata.creation_timestamp
        yield JobEvent(POD_PENDING, f"pod {name} was pending for too long", member.task, name, since=since)


def _make_eviction(member: Member) -> JobEvent:
    name = member.pod.metadata.name
    interrupted = is_interrupted(member.pod)
    return JobEvent(POD_EVICTED, f"pod {name} was evicted", member.task, name, interrupted=interrupted)


def _read_exit_code(member: Member) -> int:
    containers = member.pod.status.container_statuses
    ended = containers[0].state.terminated if containers else None
    return ended.exit_code if ended is not None else 0


def _list_task_occurrences(task: TaskSpec, members: Sequence[Member]) -> Iterator[JobEvent]:
    succeeded = sum(member.pod.status.phase == "Succeeded" for member in members)
    if task.replicas and succeeded >= task.replicas:
        yield JobEvent(TASK_COMPLETED, f"task {task.name} completed", task.name)
    restarts = sum(restart_count(member.pod) for member in members if not member.is_finished)
    if task.max_retry and restarts >= task.max_retry:
        message = f"containers of task {task.name} restarted {restarts} times"
        yield JobEvent(TASK_FAILED, message, task.name)


def _list_job_occurrences(job: Job, present: Sequence[Member]) -> Iterator[JobEvent]:
    """Yield an event if some pods run while other pods that the Job needs find no node."""
    placed = [member for member in present if member.pod.spec.node_name and member.pod.status.phase != "Failed"]
    runs = any(member.pod.status.phase == "Running" for member in placed)
    waiting = sum(member.is_unschedulable for member in present)
    if runs and waiting and len(placed) < job.spec.min_available:
        message = f"{waiting} pods find no node, and {len(placed)} of {job.spec.min_available} have one"
        yield JobEvent(JOB_UNKNOWN, message)
