"""Decide what to do about one of Volcano's Jobs. `decide` takes the Job and its pods, and returns a plan.

The phases and their transitions are those of Volcano's controller (volcano-sh/volcano, pkg/controllers/job/state).
There is one difference: a restart of the whole Job creates no pod before all old pods are gone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.notes import Note
from muster.api.volcano import (
    ABORT_JOB,
    ABORTED,
    ABORTING,
    COMPLETE_JOB,
    COMPLETED,
    COMPLETING,
    FAILED,
    PENDING,
    RESTART_JOB,
    RESTART_POD,
    RESTARTING,
    TERMINATE_JOB,
    TERMINATED,
    TERMINATING,
    Job,
    JobStatus,
    TaskSpec,
)
from muster.jobs.volcano.children import make_children, minimum_of
from muster.jobs.volcano.members import Member, is_stale, list_members
from muster.jobs.volcano.plan import VolcanoJobPlan
from muster.jobs.volcano.pods import make_pods
from muster.jobs.volcano.policies import JobEvent, RequestedAction, judge, list_occurrences
from muster.jobs.volcano.status import FINISHED, find_next_phase, in_phase, with_counts
from muster.jobs.volcano.ttl import find_expiry

# The final phase of a Job that is being stopped, by its current phase.
_ENDS: Final = {ABORTING: ABORTED, COMPLETING: COMPLETED, TERMINATING: TERMINATED}
_STOPS: Final = {ABORT_JOB: ABORTING, COMPLETE_JOB: COMPLETING, TERMINATE_JOB: TERMINATING}

# The maximum number of pods that one decision creates, and deletes, so that other Jobs are reconciled in between.
AT_MOST: Final = 256

EXHAUSTED: Final = "RetriesExhausted"
REPLACED: Final = "PodsReplaced"


def decide(job: Job, pods: Iterable[Pod], *, now: datetime, lost: Iterable[Pod] = ()) -> VolcanoJobPlan:
    """Return the plan for a Job.

    pods: the pods that the Job controls.
    lost: pods of the Job that were deleted without a grace period, so that they are no longer in `pods`.
    """
    plan = _decide_phase(job, list_members(pods), list_members(lost), now)
    if len(plan.create) <= AT_MOST and len(plan.delete) <= AT_MOST:
        return plan
    return replace(plan, create=plan.create[:AT_MOST], delete=plan.delete[:AT_MOST], more=True)


def _decide_phase(job: Job, members: Sequence[Member], lost: Sequence[Member], now: datetime) -> VolcanoJobPlan:
    counted = with_counts(job, members)
    phase = job.status.state.phase
    if phase in FINISHED:
        return _plan_after_end(job, counted, members, now)
    if phase in _ENDS:
        return _plan_stopping(job, counted, members, now)
    if phase == RESTARTING:
        return _plan_restarting(job, counted, members, now)
    return _plan_running(job, counted, members, lost, now)


def _plan_after_end(job: Job, counted: JobStatus, members: Sequence[Member], now: datetime) -> VolcanoJobPlan:
    moment, alive = find_expiry(job), _list_alive(members)
    expired = moment is not None and moment <= now
    return VolcanoJobPlan(
        counted, delete=alive, ungroup=not alive, wake_at=None if expired else moment, expired=expired
    )


def _plan_stopping(job: Job, counted: JobStatus, members: Sequence[Member], now: datetime) -> VolcanoJobPlan:
    if all(member.is_finished for member in members):
        state = job.status.state
        end = in_phase(job, counted, _ENDS[state.phase], now, state.reason, state.message)
        return VolcanoJobPlan(end, notes=(_make_note(end),))
    return VolcanoJobPlan(counted, delete=_list_alive(members))


def _plan_restarting(job: Job, counted: JobStatus, members: Sequence[Member], now: datetime) -> VolcanoJobPlan:
    stale = [member for member in members if is_stale(member, job)]
    if not stale:
        return VolcanoJobPlan(in_phase(job, counted, PENDING, now), children=make_children(job))
    return VolcanoJobPlan(counted, children=make_children(job), delete=_list_remaining(stale))


def _plan_running(
    job: Job, counted: JobStatus, members: Sequence[Member], lost: Sequence[Member], now: datetime
) -> VolcanoJobPlan:
    replicas = {task.name: task.replicas for task in job.spec.tasks}
    present = [each for each in members if not is_stale(each, job) and each.index < replicas.get(each.task, 0)]
    lost_members = [each for each in lost if not is_stale(each, job) and each.index < replicas.get(each.task, 0)]
    verdict = judge(job, list_occurrences(job, present, lost_members), now)
    if verdict.occurrence is not None:
        return _act(job, counted, present, verdict.action, verdict.occurrence, now)
    retry = job.status.retry_count + 1
    # The annotations have served their purpose, and the retry is not stored yet.
    if any(member.retry == retry for member in members):
        return VolcanoJobPlan(in_phase(job, replace(counted, retry_count=retry), RESTARTING, now, REPLACED))
    return _sync(job, counted, members, present, verdict, now)


def _act(
    job: Job, counted: JobStatus, present: Sequence[Member], action: str, occurrence: JobEvent, now: datetime
) -> VolcanoJobPlan:
    """Return the plan that carries out the action of a policy.

    counted: the status with the counts of pods.
    present: the pods, without stale ones (`is_stale`).
    action: the action that the policy requests.
    occurrence: the event for which the policy requests the action.
    """
    status, why = counted, f"{occurrence.message}: {action}"
    if action in _STOPS:
        status = replace(status, version=status.version + 1)
        return _change_phase(in_phase(job, status, _STOPS[action], now, occurrence.event, why))
    if occurrence.interrupted and action == RESTART_JOB:
        status = replace(status, version=status.version + 1)
        return _change_phase(in_phase(job, status, RESTARTING, now, occurrence.event, why))
    retry = job.status.retry_count + 1
    if retry >= job.spec.max_retry:
        status = replace(status, retry_count=retry)
        message = f"{why} is retry {retry} of at most {job.spec.max_retry}"
        return _change_phase(in_phase(job, status, FAILED, now, EXHAUSTED, message))
    if action == RESTART_JOB:
        status = replace(status, version=status.version + 1, retry_count=retry)
        return _change_phase(in_phase(job, status, RESTARTING, now, occurrence.event, why))
    targets = [member for member in present if _is_target(member, action, occurrence)]
    if unmarked := tuple(member.pod for member in targets if member.retry < retry):
        return VolcanoJobPlan(job.status, replaced=unmarked, retry=retry)
    # All pods are annotated, or the pod is gone already.
    return _change_phase(in_phase(job, replace(status, retry_count=retry), RESTARTING, now, occurrence.event, why))


def _is_target(member: Member, action: str, occurrence: JobEvent) -> bool:
    if action == RESTART_POD:
        return member.pod.metadata.name == occurrence.pod
    return member.task == occurrence.task


def _sync(
    job: Job,
    counted: JobStatus,
    members: Sequence[Member],
    present: Sequence[Member],
    verdict: RequestedAction,
    now: datetime,
) -> VolcanoJobPlan:
    """Return the plan of a Job for which no policy requests an action: create missing pods, and update the phase.

    members: all pods of the Job.
    present: the pods, without stale ones (`is_stale`).
    """
    if not counted.state.phase:
        counted = in_phase(job, counted, PENDING, now)
    phase, message = find_next_phase(job, counted)
    status = in_phase(job, counted, phase, now, "PodsEnded" if message else "", message)
    if phase in FINISHED:
        return _change_phase(status)
    kept_uids = {member.pod.metadata.uid for member in present if not member.was_interrupted}
    return VolcanoJobPlan(
        status,
        children=make_children(job),
        delete=_list_remaining(member for member in members if member.pod.metadata.uid not in kept_uids),
        # One more than the maximum shows that there are more.
        create=tuple(islice(make_pods(job, _list_missing(job, members)), AT_MOST + 1)),
        wake_at=verdict.wake_at,
    )


def _list_missing(job: Job, members: Iterable[Member]) -> Iterator[tuple[TaskSpec, int]]:
    """Yield the missing pods of tasks that may start. A pod that is being deleted keeps its name until it is gone."""
    taken, ready = {member.place for member in members}, _count_ready(members)
    least = {task.name: minimum_of(task) for task in job.spec.tasks}
    for task in job.spec.tasks:
        if _can_start(task, ready, least):
            for index in range(task.replicas):
                if (task.name, index) not in taken:
                    yield task, index


def _count_ready(members: Iterable[Member]) -> dict[str, int]:
    """Return how many pods of each task are ready or have succeeded."""
    counts: dict[str, int] = {}
    for member in members:
        status = member.pod.status
        runs = status.phase == "Running" and all(one.ready for one in status.container_statuses)
        counts[member.task] = counts.get(member.task, 0) + (runs or status.phase == "Succeeded")
    return counts


def _can_start(task: TaskSpec, ready: Mapping[str, int], least: Mapping[str, int]) -> bool:
    if task.depends_on is None or not task.depends_on.name:
        return True
    met = (ready.get(name, 0) >= least.get(name, 0) for name in task.depends_on.name)
    return any(met) if task.depends_on.iteration == "any" else all(met)


def _change_phase(status: JobStatus) -> VolcanoJobPlan:
    """Return the plan that only stores the status with a new phase; the next decision does the remaining work."""
    return VolcanoJobPlan(status, notes=(_make_note(status),))


def _make_note(status: JobStatus) -> Note:
    state = status.state
    bad = state.phase in (FAILED, ABORTED, TERMINATED)
    return Note("Warning" if bad else "Normal", state.phase, state.message or f"the Job is {state.phase}")


def _list_alive(members: Iterable[Member]) -> tuple[Pod, ...]:
    return _list_remaining(member for member in members if not member.is_finished)


def _list_remaining(members: Iterable[Member]) -> tuple[Pod, ...]:
    """Return the pods that are not being deleted."""
    return tuple(member.pod for member in members if not member.is_going)
