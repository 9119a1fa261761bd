"""Decides when the main containers of a JobSet's group may begin, or that the group is too late. Pure.

What may be said is only what stands in the status that was read: the look that finds the group complete writes that it
is released, and a later one says so to the pods. So whatever is cut off between the two, nothing begins on a word that
is forgotten afterwards, and a word once given holds for each pod of its epoch, however late.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from muster.api.batch import Job, JobCondition
from muster.api.conditions import find
from muster.api.core import ConfigMap
from muster.api.jobset import GroupSchedulingStatus, JobSet, names
from muster.api.meta import Condition, ObjectMeta
from muster.api.notes import Note
from muster.api.values.indexes import Indexes
from muster.jobs.job.conditions import DEADLINE_EXCEEDED, FAILED_INDEXES, FAILURE_TARGET, Verdict, finish
from muster.jobs.jobset.children import owner_reference
from muster.jobs.jobset.start.barrier import (
    ENDPOINT,
    LATER_SECONDS,
    RESTARTS,
    STARTED,
    asks_containers,
    config_map_name,
    word,
)
from muster.jobs.jobset.start.group import arrived, expected, is_failing, is_target, lost, status_of, targets, told

WAITING, STARTED_ALL, TIMED_OUT = "WaitingForPods", "AllPodsStarted", "Timeout"
_WHOLE_SECOND = 1  # times are stored without what goes beyond


class GroupStanding(Struct, frozen=True):
    """What the shell has seen of the present epoch.

    started: by the UID of each Job, the indexes of its pods that have started (`Member`).
    endpoint: where barriers may wait for the word, in words of theirs; "" if nowhere.
    kept: the ConfigMap that the pods mount is known to be the JobSet's.
    blocked: it is known not to be.
    """

    started: Mapping[str, Collection[str]]
    endpoint: str = ""
    kept: bool = True
    blocked: bool = False


NOTHING_SEEN = GroupStanding({})


class Failure(Struct, frozen=True):
    """A Job that is to fail, and why: with it fails the group, as the JobSet's failure policy says."""

    job: Job
    condition: JobCondition


class StartPlan(Struct, frozen=True):
    """What becomes of the start of a group.

    status: `status.groupScheduling`.
    condition: the condition GroupSchedulingReady, to stand among the others.
    config_map: what the pods mount, as it should be; None if it may be whatever it is.
    released: the epoch whose barriers may be told to open; 0 if none.
    failure: the group is too late.
    notes: events, once the status is written.
    wake_at: when time changes the plan.
    """

    status: GroupSchedulingStatus | None = None
    condition: Condition | None = None
    config_map: ConfigMap | None = None
    released: int = 0
    failure: Failure | None = None
    notes: tuple[Note, ...] = ()
    wake_at: datetime | None = None


def decide_start(jobset: JobSet, jobs: Iterable[Job], standing: GroupStanding, now: datetime) -> StartPlan:
    """The start of the group, as of now; not for a JobSet that has ended or is going.

    jobs: its child Jobs of the present attempt, those that have ended too.
    """
    before = status_of(jobset)
    said = find(jobset.status.conditions, names.GROUP_SCHEDULING_READY)
    if jobset.spec.group_scheduling_config is None:
        return StartPlan(jobset.status.group_scheduling, said)
    if before.released_epoch == before.epoch:
        config_map = _config_map(jobset, {STARTED: word(jobset.metadata.uid, before.epoch)})
        return StartPlan(before, said, config_map, before.epoch)
    config_map = _config_map(jobset, _while_it_waits(jobset, standing))
    if jobset.spec.suspend:
        if said is not None and said.status == "True":  # of an earlier epoch
            said = _condition(jobset, "False", WAITING, "jobset is suspended", now)
        return StartPlan(before, said, config_map)
    known = list(jobs)
    wanted = expected(jobset, known)
    group = [job for job in known if job.metadata.name in wanted]
    started = arrived(jobset, {job.metadata.name: standing.started.get(job.metadata.uid, ()) for job in group})
    missing = {name: number - started[name] for name, number in wanted.items()}
    total = sum(wanted.values())
    count = total - sum(number for number in missing.values() if number > 0)
    status = told(before, count, total)
    if status.start_time is None and count:
        status = replace(status, start_time=now)
    deadline, late = _deadline(jobset, status), is_too_late(jobset)
    failed = lost(jobset, {job.metadata.name: job for job in group})
    if failed and not late:
        plan = _never_complete(jobset, status, failed, now)
        plan = replace(plan, failure=_failure(group, failed, FAILED_INDEXES, _message("group cannot start", plan), now))
    elif not late and count >= total and standing.kept and not any(map(is_failing, group)):
        plan = _released(jobset, status, now)
    elif not late and (deadline is None or now < deadline):
        message = f"{status.started}/{status.expected} pods started"
        reason = names.CONFIG_MAP_CONFLICT if standing.blocked else WAITING
        if standing.blocked:
            message += f"; {_conflict(jobset)}: nothing more begins until it goes"
        plan = StartPlan(status, _condition(jobset, "False", reason, message, now), wake_at=deadline)
    else:
        lacking = [name for name, lack in missing.items() if lack > 0]
        plan = _too_late(jobset, replace(status, started=count), lacking, standing, now)
        message = _message("group scheduling timed out", plan)
        plan = replace(plan, failure=_failure(group, (*lacking, *wanted), DEADLINE_EXCEEDED, message, now))
    return replace(plan, config_map=config_map)


def is_too_late(jobset: JobSet) -> bool:
    """Whether it has been said that the group is too late in its present epoch: then it is never released in it."""
    said = find(jobset.status.conditions, names.GROUP_SCHEDULING_READY)
    return said is not None and said.reason == TIMED_OUT and status_of(jobset).start_time is not None


def waiting_again(jobset: JobSet, role: str) -> GroupSchedulingStatus | None:
    """What the status says once a Job of a role starts again by itself: time begins anew if it was over for its group.

    Otherwise the next look would let another Job fail for the one that is not there yet.
    """
    before = jobset.status.group_scheduling
    anew = is_target(jobset.spec, role) and is_too_late(jobset)
    return replace(before, start_time=None) if before is not None and anew else before


def _released(jobset: JobSet, status: GroupSchedulingStatus, now: datetime) -> StartPlan:
    message = f"{status.started}/{status.expected} pods started"
    return StartPlan(
        replace(status, released_epoch=status.epoch),
        _condition(jobset, "True", STARTED_ALL, message, now),
        notes=(Note("Normal", STARTED_ALL, f"{message}: their main containers may start"),),
    )


def _too_late(
    jobset: JobSet, status: GroupSchedulingStatus, lacking: list[str], standing: GroupStanding, now: datetime
) -> StartPlan:
    """The group has failed. That is said once: pods that still come and go change nothing."""
    if is_too_late(jobset):
        said = find(jobset.status.conditions, names.GROUP_SCHEDULING_READY)
        return StartPlan(jobset.status.group_scheduling, said)
    config = jobset.spec.group_scheduling_config
    seconds = config.timeout_after_seconds if config is not None else None
    named = ", ".join(lacking[:3]) + (", ..." if len(lacking) > 3 else "")
    message = f"{status.started}/{status.expected} pods started within {seconds} seconds"
    message += f"; pods are missing of {named}" if named else ""
    message += f"; {_conflict(jobset)}" if standing.blocked else ""
    condition = _condition(jobset, "False", TIMED_OUT, message, now)
    return StartPlan(status, condition, notes=(Note("Warning", "GroupSchedulingTimeout", message),))


def _never_complete(
    jobset: JobSet, status: GroupSchedulingStatus, failed: Mapping[str, Indexes], now: datetime
) -> StartPlan:
    """An index that has failed for good is not made again. Its Job fails in the end anyway: now, before any begins.

    That is said once, too.
    """
    said = find(jobset.status.conditions, names.GROUP_SCHEDULING_READY)
    if said is not None and said.reason == FAILED_INDEXES.reason:
        return StartPlan(jobset.status.group_scheduling, said)
    name, indexes = next(iter(failed.items()))
    message = f"{status.started}/{status.expected} pods started; failed for good: indexes {indexes} of {name}"
    message += ", ..." if len(failed) > 1 else ""
    condition = _condition(jobset, "False", FAILED_INDEXES.reason, message, now)
    return StartPlan(status, condition, notes=(Note("Warning", "GroupSchedulingFailed", message),))


def _message(about: str, plan: StartPlan) -> str:
    return f"{about}: {plan.condition.message}" if plan.condition is not None else about


def _failure(group: list[Job], order: Iterable[str], verdict: Verdict, message: str, now: datetime) -> Failure | None:
    """One Job fails for the group: the first in the order, of those that there are."""
    if any(map(is_failing, group)):
        return None  # its failure is on its way
    known = {job.metadata.name: job for job in group if finish(job) is None}
    name = next((name for name in order if name in known), None)
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
    return Failure(known[name], condition)


def _deadline(jobset: JobSet, status: GroupSchedulingStatus) -> datetime | None:
    config = jobset.spec.group_scheduling_config
    if config is None or config.timeout_after_seconds is None or status.start_time is None:
        return None
    later = any(asks_containers(role.template.spec) for role in targets(jobset.spec))
    seconds = config.timeout_after_seconds + (LATER_SECONDS if later else 0) + _WHOLE_SECOND
    return status.start_time + timedelta(seconds=seconds)


def _condition(jobset: JobSet, status: str, reason: str, message: str, now: datetime) -> Condition:
    """The condition; the time of its change stays unless its status changes."""
    before = find(jobset.status.conditions, names.GROUP_SCHEDULING_READY)
    since = before.last_transition_time if before is not None and before.status == status else now
    return Condition(
        type=names.GROUP_SCHEDULING_READY, status=status, reason=reason, message=message, last_transition_time=since
    )


def _conflict(jobset: JobSet) -> str:
    return f'ConfigMap "{config_map_name(jobset.metadata.name)}" is not of this JobSet'


def _while_it_waits(jobset: JobSet, standing: GroupStanding) -> dict[str, str]:
    """What barriers read: where they connect, and a number whose change gives them their time anew."""
    restarts = sum(sum(role.job_restarts) for role in jobset.status.replicated_jobs_status)
    found = {ENDPOINT: standing.endpoint, RESTARTS: str(restarts) if restarts else ""}
    return {name: text for name, text in found.items() if text}


def _config_map(jobset: JobSet, data: dict[str, str]) -> ConfigMap:
    meta = jobset.metadata
    return ConfigMap(
        metadata=ObjectMeta(
            name=config_map_name(meta.name),
            namespace=meta.namespace,
            labels={names.JOBSET_NAME: meta.name},
            owner_references=(owner_reference(jobset),),
        ),
        data=data,
    )
