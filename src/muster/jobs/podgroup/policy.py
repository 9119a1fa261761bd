"""Decide what to do about a started group with fewer running pods than its minimum (scheduler KEP-34's controller).

Pure.

A restart or a failure is first written into the group's status. It covers the pods that were created up to
`restartedUntil`, so a controller that crashed and started again continues with the remaining pods. Succeeded pods count
as running, and are kept. A restart after an interruption is not counted, and is not delayed.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from muster.api.conditions import is_true
from muster.api.core import Pod
from muster.api.meta import Condition, controller_of
from muster.api.notes import Note
from muster.api.podgroups import kep
from muster.api.podgroups.names import FAILED
from muster.api.pods import is_active, is_deleting
from muster.jobs.interruption import is_interrupted
from muster.jobs.podgroup.census import Census, count
from muster.jobs.podgroup.record import read

# The longest back-off, equal to that of Jobs, unless the first back-off is longer.
LONGEST_BACKOFF: Final = timedelta(minutes=10)


class GroupStep(Struct, frozen=True):
    """The next step for a PodGroup: store `status` if it is new, otherwise delete the pods in `end`.

    blameless: whether the pods are deleted to be recreated, so that their Job must not count that as a failure.
    again: the delay after which to decide again even if nothing changes.
    note: the event to record with the new status.
    """

    status: kep.PodGroupStatus
    end: tuple[Pod, ...] = ()
    blameless: bool = False
    again: timedelta | None = None
    note: Note | None = None


def decide(group: kep.PodGroup, pods: Sequence[Pod], now: datetime) -> GroupStep:
    """Return the next step for a group with these pods: the status to store, or the pods to delete."""
    status, moment = group.status, now.replace(microsecond=0)
    of_old = [pod for pod in pods if _is_of_earlier_start(pod, status.restarted_until)]
    if status.completion_time is not None:
        failed = is_true(status.conditions, FAILED)
        return GroupStep(status, tuple(pod for pod in of_old if is_active(pod)) if failed else ())
    if running := [pod for pod in of_old if not is_deleting(pod)]:
        return GroupStep(status, tuple(running), blameless=True)
    uids_of_old = {pod.metadata.uid for pod in of_old}
    members = [pod for pod in pods if pod.metadata.uid not in uids_of_old]
    census = count(members)
    least, enough = read(group).min_members, census.running + census.succeeded
    if census.succeeded >= max(least, 1) and not census.admitted and not census.pending:
        return GroupStep(replace(status, completion_time=moment, below_min_time=None))
    if enough >= least and enough:
        return GroupStep(replace(status, start_time=status.start_time or moment, below_min_time=None))
    policy = group.spec.policy
    if status.start_time is None or policy is None or policy.on_below_min == kep.NONE:
        return GroupStep(status)
    return _act_below_minimum(group, policy, pods, census, moment, interrupted=any(map(is_interrupted, members)))


def _is_of_earlier_start(pod: Pod, until: datetime | None) -> bool:
    """Return whether a pod was created before the group's last restart and has not succeeded."""
    created = pod.metadata.creation_timestamp
    return until is not None and created is not None and created <= until and pod.status.phase != "Succeeded"


def _act_below_minimum(
    group: kep.PodGroup,
    policy: kep.PodGroupPolicy,
    pods: Sequence[Pod],
    census: Census,
    now: datetime,
    *,
    interrupted: bool,
) -> GroupStep:
    """Restart or fail a group that has fewer running pods than its minimum, or wait for its back-off.

    interrupted: whether the platform ended one of its pods. Then the group neither waits nor uses up a restart.
    """
    status, least = group.status, read(group).min_members
    why = f"{census.running} running and {census.succeeded} succeeded pods are fewer than the {least} that must run"
    if policy.on_below_min == kep.FAIL:
        return _fail_group(group, pods, now, "BelowMinMembers", why)
    if not interrupted and policy.max_restarts is not None and status.restarts >= policy.max_restarts:
        return _fail_group(group, pods, now, "MaxRestartsExceeded", f"{why}, after {status.restarts} restarts")
    since = status.below_min_time or now
    remaining = since + compute_backoff(policy, status.restarts) - now
    if remaining > timedelta() and not interrupted:
        return GroupStep(replace(status, below_min_time=since), again=remaining)
    if lost := _find_uncontrolled(pods):
        return _fail_group(group, pods, now, "NoController", f"{why}, and pod {lost} has no controller to recreate it")
    number = status.restarts + (not interrupted)
    status = replace(status, restarts=number, restarted_until=_find_newest(pods), start_time=None, below_min_time=None)
    about = "Restart after an interruption" if interrupted else f"Restart {number}"
    return GroupStep(status, note=Note("Warning", "Restarting", f"{about}: {why}"))


def compute_backoff(policy: kep.PodGroupPolicy, restarts: int) -> timedelta:
    """Return how long a group waits for its next restart, after this number of restarts."""
    first = timedelta(seconds=policy.backoff_seconds or 0)
    doublings = min(restarts, LONGEST_BACKOFF.seconds.bit_length())
    return max(first, min(first * (1 << doublings), LONGEST_BACKOFF))


def _fail_group(group: kep.PodGroup, pods: Sequence[Pod], now: datetime, reason: str, why: str) -> GroupStep:
    condition = Condition(
        type=FAILED,
        status="True",
        observed_generation=group.metadata.generation,
        last_transition_time=now,
        reason=reason,
        message=why,
    )
    others = tuple(one for one in group.status.conditions if one.type != FAILED)
    status = replace(
        group.status,
        completion_time=now,
        restarted_until=_find_newest(pods),
        below_min_time=None,
        conditions=(*others, condition),
    )
    return GroupStep(status, note=Note("Warning", FAILED, why))


def _find_newest(pods: Iterable[Pod]) -> datetime | None:
    created = (pod.metadata.creation_timestamp for pod in pods)
    return max((time for time in created if time is not None), default=None)


def _find_uncontrolled(pods: Iterable[Pod]) -> str:
    """Return the name of a pod that a restart would lose because it has no controller; "" if there is none."""
    lost = (pod.metadata for pod in pods if pod.status.phase != "Succeeded")
    return min((meta.name for meta in lost if controller_of(meta) is None), default="")
