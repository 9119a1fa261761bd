"""What is done about a group that had started and of which fewer pods run than must (KEP-34's PodGroup controller).

What a restart or an end will do is written into the group's status first: from then on it is about the pods that were
made up to `restartedUntil`, and a controller that comes back after a kill goes on with those that are left. Pods that
have succeeded have done their part: they count as running, and stay. Pure.
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
from muster.jobs.podgroup.census import Census, count
from muster.jobs.podgroup.record import read

# As with Jobs, no back-off waits longer, unless the first one does.
LONGEST_BACKOFF: Final = timedelta(minutes=10)


class Step(Struct, frozen=True):
    """What is to be done: the status is written if it has changed, and then nothing else; else these pods go.

    blameless: they go to be made anew, and their Job is not to take that for their failure.
    again: after how long to look again even if nothing changes.
    note: what people are told with the new status.
    """

    status: kep.PodGroupStatus
    end: tuple[Pod, ...] = ()
    blameless: bool = False
    again: timedelta | None = None
    note: Note | None = None


def decide(group: kep.PodGroup, pods: Sequence[Pod], now: datetime) -> Step:
    """The next step for a group with these pods."""
    status, moment = group.status, now.replace(microsecond=0)
    of_old = [pod for pod in pods if _is_of_old(pod, status.restarted_until)]
    if status.completion_time is not None:
        failed = is_true(status.conditions, FAILED)
        return Step(status, tuple(pod for pod in of_old if is_active(pod)) if failed else ())
    if left := [pod for pod in of_old if not is_deleting(pod)]:
        return Step(status, tuple(left), blameless=True)
    gone = {pod.metadata.uid for pod in of_old}
    census = count(pod for pod in pods if pod.metadata.uid not in gone)
    least, enough = read(group).min_members, census.running + census.succeeded
    if census.succeeded >= max(least, 1) and not census.admitted and not census.pending:
        return Step(replace(status, completion_time=moment, below_min_time=None))
    if enough >= least and enough:
        return Step(replace(status, start_time=status.start_time or moment, below_min_time=None))
    policy = group.spec.policy
    if status.start_time is None or policy is None or policy.on_below_min == kep.NONE:
        return Step(status)
    return _below(group, policy, pods, census, moment)


def _is_of_old(pod: Pod, until: datetime | None) -> bool:
    """Whether it is of the time before the last restart, and has not succeeded."""
    created = pod.metadata.creation_timestamp
    return until is not None and created is not None and created <= until and pod.status.phase != "Succeeded"


def _below(group: kep.PodGroup, policy: kep.PodGroupPolicy, pods: Sequence[Pod], census: Census, now: datetime) -> Step:
    status, least = group.status, read(group).min_members
    why = f"{census.running} running and {census.succeeded} succeeded pods are fewer than the {least} that must run"
    if policy.on_below_min == kep.FAIL:
        return _failed(group, pods, now, "BelowMinMembers", why)
    if policy.max_restarts is not None and status.restarts >= policy.max_restarts:
        return _failed(group, pods, now, "MaxRestartsExceeded", f"{why}, after {status.restarts} restarts")
    since = status.below_min_time or now
    left = since + backoff(policy, status.restarts) - now
    if left > timedelta():
        return Step(replace(status, below_min_time=since), again=left)
    if lost := _without_controller(pods):
        return _failed(group, pods, now, "NoController", f"{why}, and pod {lost} has no controller to make it anew")
    number = status.restarts + 1
    status = replace(status, restarts=number, restarted_until=_newest(pods), start_time=None, below_min_time=None)
    return Step(status, note=Note("Warning", "Restarting", f"Restart {number}: {why}"))


def backoff(policy: kep.PodGroupPolicy, restarts: int) -> timedelta:
    """How long a group waits for its next restart, after so many."""
    first = timedelta(seconds=policy.backoff_seconds or 0)
    doublings = min(restarts, LONGEST_BACKOFF.seconds.bit_length())
    return max(first, min(first * (1 << doublings), LONGEST_BACKOFF))


def _failed(group: kep.PodGroup, pods: Sequence[Pod], now: datetime, reason: str, why: str) -> Step:
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
        restarted_until=_newest(pods),
        below_min_time=None,
        conditions=(*others, condition),
    )
    return Step(status, note=Note("Warning", FAILED, why))


def _newest(pods: Iterable[Pod]) -> datetime | None:
    created = (pod.metadata.creation_timestamp for pod in pods)
    return max((time for time in created if time is not None), default=None)


def _without_controller(pods: Iterable[Pod]) -> str:
    """The name of a pod that would be lost; "" if there is none."""
    lost = (pod.metadata for pod in pods if pod.status.phase != "Succeeded")
    return min((meta.name for meta in lost if controller_of(meta) is None), default="")
