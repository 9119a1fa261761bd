"""Decide when the main containers of a JobSet's group may start, or that the group has timed out. Pure.

Pods learn only what the stored status says. The decision that finds the group complete writes the release into the
status, and a later decision passes it on to the pods. So if the controller crashes at any point, no pod starts on a
release that is not stored. A release holds for every pod of its epoch, however late the pod is.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from muster.api.batch import Job, JobCondition
from muster.api.conditions import find
from muster.api.core import ConfigMap
from muster.api.jobset import JOB_SET, GroupSchedulingStatus, JobSet, names
from muster.api.meta import Condition, ObjectMeta
from muster.api.notes import Note
from muster.api.values.indexes import Indexes
from muster.jobs.job.conditions import DEADLINE_EXCEEDED, FAILED_INDEXES, FAILURE_TARGET, Verdict, finish
from muster.jobs.jobset.start.barrier import (
    ENDPOINT,
    LATER_SECONDS,
    RESTARTS,
    STARTED,
    asks_containers,
    config_map_name,
    make_barrier_word,
)
from muster.jobs.jobset.start.group import (
    count_arrived,
    count_expected,
    find_lost_indexes,
    find_target_roles,
    is_failing,
    is_target,
    report_progress,
    status_of,
)

WAITING, STARTED_ALL, TIMED_OUT = "WaitingForPods", "AllPodsStarted", "Timeout"
_WHOLE_SECOND = 1  # times are stored without fractions


class StartedPods(Struct, frozen=True):
    """The observations of a group by the controller in the current epoch.

    started: the indexes of the pods of each Job that have started (`Member`), by the UID of the Job.
    endpoint: the address and secret with which barriers connect to wait for the release; "" if there is none.
    kept: whether the controller knows that the ConfigMap that the pods mount belongs to the JobSet.
    blocked: whether the controller knows that this ConfigMap belongs to another owner.
    """

    started: Mapping[str, Collection[str]]
    endpoint: str = ""
    kept: bool = True
    blocked: bool = False


NOTHING_SEEN = StartedPods({})


class Failure(Struct, frozen=True):
    """A Job to mark as failed, with the condition to write. The JobSet's failure policy then fails the whole group."""

    job: Job
    condition: JobCondition


class StartPlan(Struct, frozen=True):
    """The plan for the start of a group.

    status: `status.groupScheduling`.
    condition: the condition GroupSchedulingReady.
    config_map: the desired ConfigMap that the pods mount; None if its content does not matter.
    released: the epoch whose barriers may open; 0 if none may.
    failure: the Job to fail if the group has timed out; None otherwise.
    notes: events to record after the status is written.
    wake_at: when to decide again even if nothing changes; None if that is not needed.
    """

    status: GroupSchedulingStatus | None = None
    condition: Condition | None = None
    config_map: ConfigMap | None = None
    released: int = 0
    failure: Failure | None = None
    notes: tuple[Note, ...] = ()
    wake_at: datetime | None = None


def decide_start(jobset: JobSet, jobs: Iterable[Job], standing: StartedPods, now: datetime) -> StartPlan:
    """Return the plan for the start of the group now. The JobSet must be neither ended nor being deleted.

    jobs: the JobSet's child Jobs of the current attempt, including ended ones.
    """
    before = status_of(jobset)
    condition = find(jobset.status.conditions, names.GROUP_SCHEDULING_READY)
    if jobset.spec.group_scheduling_config is None:
        return StartPlan(jobset.status.group_scheduling, condition)
    if before.released_epoch == before.epoch:
        config_map = _make_config_map(jobset, {STARTED: make_barrier_word(jobset.metadata.uid, before.epoch)})
        return StartPlan(before, condition, config_map, before.epoch)
    config_map = _make_config_map(jobset, _make_waiting_data(jobset, standing))
    if jobset.spec.suspend:
        if condition is not None and condition.status == "True":  # the condition is of an earlier epoch
            condition = _make_condition(jobset, "False", WAITING, "jobset is suspended", now)
        return StartPlan(before, condition, config_map)
    child_jobs = list(jobs)
    pods_by_job = count_expected(jobset, child_jobs)
    group = [job for job in child_jobs if job.metadata.name in pods_by_job]
    started = count_arrived(jobset, {job.metadata.name: standing.started.get(job.metadata.uid, ()) for job in group})
    missing = {name: number - started[name] for name, number in pods_by_job.items()}
    total = sum(pods_by_job.values())
    count = total - sum(number for number in missing.values() if number > 0)
    status = report_progress(before, count, total)
    if status.start_time is None and count:
        status = replace(status, start_time=now)
    deadline, late = _compute_deadline(jobset, status), is_too_late(jobset)
    failed = find_lost_indexes(jobset, {job.metadata.name: job for job in group})
    if failed and not late:
        plan = _fail_incomplete_group(jobset, status, failed, now)
        plan = replace(
            plan,
            failure=_make_failure(group, failed, FAILED_INDEXES, _compose_message("group cannot start", plan), now),
        )
    elif not late and count >= total and standing.kept and not any(map(is_failing, group)):
        plan = _release_group(jobset, status, now)
    elif not late and (deadline is None or now < deadline):
        message = f"{status.started}/{status.expected} pods started"
        reason = names.CONFIG_MAP_CONFLICT if standing.blocked else WAITING
        if standing.blocked:
            message += f"; {_describe_conflict(jobset)}: no main container starts until it is deleted"
        plan = StartPlan(status, _make_condition(jobset, "False", reason, message, now), wake_at=deadline)
    else:
        lacking = [name for name, lack in missing.items() if lack > 0]
        plan = _fail_late_group(jobset, replace(status, started=count), lacking, standing, now)
        message = _compose_message("group scheduling timed out", plan)
        plan = replace(plan, failure=_make_failure(group, (*lacking, *pods_by_job), DEADLINE_EXCEEDED, message, now))
    return replace(plan, config_map=config_map)


def is_too_late(jobset: JobSet) -> bool:
    """Return whether the status says that the group has timed out in its current epoch.

    Such a group is never released in that epoch.
    """
    condition = find(jobset.status.conditions, names.GROUP_SCHEDULING_READY)
    return condition is not None and condition.reason == TIMED_OUT and status_of(jobset).start_time is not None


def waiting_again(jobset: JobSet, role: str) -> GroupSchedulingStatus | None:
    """Return the group's status to store when a Job of a role is restarted alone; None if no status is stored.

    A group that has timed out gets a new start time. Otherwise the next decision would fail another Job, because the
    restarted Job does not exist yet.
    """
    before = jobset.status.group_scheduling
    anew = is_target(jobset.spec, role) and is_too_late(jobset)
    return replace(before, start_time=None) if before is not None and anew else before


def _release_group(jobset: JobSet, status: GroupSchedulingStatus, now: datetime) -> StartPlan:
    message = f"{status.started}/{status.expected} pods started"
    return StartPlan(
        replace(status, released_epoch=status.epoch),
        _make_condition(jobset, "True", STARTED_ALL, message, now),
        notes=(Note("Normal", STARTED_ALL, f"{message}: their main containers may start"),),
    )


def _fail_late_group(
    jobset: JobSet, status: GroupSchedulingStatus, lacking: list[str], standing: StartedPods, now: datetime
) -> StartPlan:
    """Return the plan that fails the group because of its timeout.

    lacking: the Jobs whose pods have not all started. The message is written once, so later changes of pods do not
    change it.
    """
    if is_too_late(jobset):
        stored = find(jobset.status.conditions, names.GROUP_SCHEDULING_READY)
        return StartPlan(jobset.status.group_scheduling, stored)
    config = jobset.spec.group_scheduling_config
    seconds = config.timeout_after_seconds if config is not None else None
    named = ", ".join(lacking[:3]) + (", ..." if len(lacking) > 3 else "")
    message = f"{status.started}/{status.expected} pods started within {seconds} seconds"
    message += f"; pods are missing of {named}" if named else ""
    message += f"; {_describe_conflict(jobset)}" if standing.blocked else ""
    condition = _make_condition(jobset, "False", TIMED_OUT, message, now)
    return StartPlan(status, condition, notes=(Note("Warning", "GroupSchedulingTimeout", message),))


def _fail_incomplete_group(
    jobset: JobSet, status: GroupSchedulingStatus, failed: Mapping[str, Indexes], now: datetime
) -> StartPlan:
    """Return the plan that fails the group because some indexes failed permanently and are not recreated.

    Their Job would fail at its end. This plan fails it now, before any main container starts. The message is written
    once.
    """
    stored = find(jobset.status.conditions, names.GROUP_SCHEDULING_READY)
    if stored is not None and stored.reason == FAILED_INDEXES.reason:
        return StartPlan(jobset.status.group_scheduling, stored)
    name, indexes = next(iter(failed.items()))
    message = f"{status.started}/{status.expected} pods started; failed for good: indexes {indexes} of {name}"
    message += ", ..." if len(failed) > 1 else ""
    condition = _make_condition(jobset, "False", FAILED_INDEXES.reason, message, now)
    return StartPlan(status, condition, notes=(Note("Warning", "GroupSchedulingFailed", message),))


def _compose_message(about: str, plan: StartPlan) -> str:
    return f"{about}: {plan.condition.message}" if plan.condition is not None else about


def _make_failure(
    group: list[Job], order: Iterable[str], verdict: Verdict, message: str, now: datetime
) -> Failure | None:
    """Return the failure of one Job for the group, the first unfinished one in `order`; None if a Job fails already."""
    if any(map(is_failing, group)):
        return None  # a Job is failing already
    unfinished = {job.metadata.name: job for job in group if finish(job) is None}
    name = next((name for name in order if name in unfinished), None)
    if name is None:
        return None
    condition = JobCondition(
        type=FAILURE_TARGET,
        status="True",
        reason=verdict.reason,
        message=message,
        last_probe_time=now,
        last_transition_time=now,
    )
    return Failure(unfinished[name], condition)


def _compute_deadline(jobset: JobSet, status: GroupSchedulingStatus) -> datetime | None:
    config = jobset.spec.group_scheduling_config
    if config is None or config.timeout_after_seconds is None or status.start_time is None:
        return None
    later = any(asks_containers(role.template.spec) for role in find_target_roles(jobset.spec))
    seconds = config.timeout_after_seconds + (LATER_SECONDS if later else 0) + _WHOLE_SECOND
    return status.start_time + timedelta(seconds=seconds)


def _make_condition(jobset: JobSet, status: str, reason: str, message: str, now: datetime) -> Condition:
    """Return the condition. Its transition time changes only if its status changes."""
    before = find(jobset.status.conditions, names.GROUP_SCHEDULING_READY)
    since = before.last_transition_time if before is not None and before.status == status else now
    return Condition(
        type=names.GROUP_SCHEDULING_READY, status=status, reason=reason, message=message, last_transition_time=since
    )


def _describe_conflict(jobset: JobSet) -> str:
    return f'ConfigMap "{config_map_name(jobset.metadata.name)}" does not belong to this JobSet'


def _make_waiting_data(jobset: JobSet, standing: StartedPods) -> dict[str, str]:
    """Return the data that barriers read: the endpoint, and a number whose change restarts their timers."""
    restarts = sum(sum(role.job_restarts) for role in jobset.status.replicated_jobs_status)
    data = {ENDPOINT: standing.endpoint, RESTARTS: str(restarts) if restarts else ""}
    return {name: text for name, text in data.items() if text}


def _make_config_map(jobset: JobSet, data: dict[str, str]) -> ConfigMap:
    meta = jobset.metadata
    return ConfigMap(
        metadata=ObjectMeta(
            name=config_map_name(meta.name),
            namespace=meta.namespace,
            labels={names.JOBSET_NAME: meta.name},
            owner_references=(JOB_SET.refer_to_controller(jobset.metadata),),
        ),
        data=data,
    )
