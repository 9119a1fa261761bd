"""Decide whether a job with dependencies or a start time starts now, keeps waiting, or can never start. Pure.

A condition that was met stays met. The job can never start if one of its dependencies has ended with another result,
does not exist, or waits for the job itself. If a dependency was deleted before the controller observed its end, its
result is unknown: it then satisfies only `:any`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from msgspec import Struct

from muster.api.meta import ObjectMeta
from muster.api.ours.deferral import Deferral, Dependency, Outcome, remove_gate
from muster.jobs.job.conditions import Verdict

# Slurm's reason for a job whose dependency can no longer be met.
NEVER_SATISFIED: Final = "DependencyNeverSatisfied"

# A manifest may name a job that is created after it. So a missing dependency counts only once the job is this old.
GRACE: Final = timedelta(minutes=1)


class DependencyState(Enum):
    """The state of a job on which other jobs depend."""

    ABSENT = "absent"
    UNFINISHED = "unfinished"
    COMPLETED = "completed"
    FAILED = "failed"


_MEETS = {
    Outcome.OK: (DependencyState.COMPLETED,),
    Outcome.FAIL: (DependencyState.FAILED,),
    Outcome.ANY: (DependencyState.COMPLETED, DependencyState.FAILED, DependencyState.ABSENT),
}
_WORDS = {
    DependencyState.COMPLETED: "{0} completed",
    DependencyState.FAILED: "{0} failed",
    DependencyState.ABSENT: "there is no job {0}",
}


class DeferralPlan(Struct, frozen=True):
    """The work to do for one deferred job now.

    release: whether the job starts.
    verdict: the failure with which the job ends without a start; None if it may still start.
    met: the names of all met dependencies, to record in the job.
    wake_at: when to decide again even if nothing changes.
    """

    release: bool = False
    verdict: Verdict | None = None
    met: frozenset[str] = frozenset()
    wake_at: datetime | None = None


def decide(
    deferral: Deferral,
    met: frozenset[str],
    states: Mapping[str, DependencyState],
    circle: Sequence[str],
    *,
    created: datetime,
    now: datetime,
) -> DeferralPlan:
    """Return the work to do for a waiting job.

    met: the names of the dependencies that were met before.
    states: the states of all other dependencies, by name.
    circle: the names of jobs that wait for each other, from this job back to itself; empty if there is no circle.
    """
    if circle:
        sentence = f"the jobs wait for each other: {' -> '.join(circle)}"
        return DeferralPlan(verdict=Verdict(False, NEVER_SATISFIED, sentence), met=met)
    open_ones = [one for one in deferral.after if one.name not in met]
    counts = now >= created + GRACE
    ended = [one for one in open_ones if _has_ended(states[one.name], missing_counts=counts)]
    failing = next((one for one in ended if states[one.name] not in _MEETS[one.outcome]), None)
    if failing is not None:
        return DeferralPlan(verdict=_explain_never(failing, states[failing.name]), met=met)
    met |= {one.name for one in ended}
    if len(ended) < len(open_ones):
        missing = any(states[one.name] is DependencyState.ABSENT for one in open_ones)
        return DeferralPlan(met=met, wake_at=created + GRACE if missing and not counts else None)
    if deferral.begin_at is not None and now < deferral.begin_at:
        return DeferralPlan(met=met, wake_at=deferral.begin_at)
    return DeferralPlan(release=True, met=met)


def make_release(meta: ObjectMeta, *, queues: bool) -> dict[str, Any]:
    """Return the merge patch that ends a job's deferral, so that it can start.

    queues: whether a queue resumes the job later. If not, the patch resumes it.
    """
    resumption = {} if queues else {"spec": {"suspend": False}}
    return {"metadata": {"annotations": remove_gate(meta.annotations)}} | resumption


def _has_ended(state: DependencyState, *, missing_counts: bool) -> bool:
    return state is not DependencyState.UNFINISHED and (missing_counts or state is not DependencyState.ABSENT)


def _explain_never(dependency: Dependency, state: DependencyState) -> Verdict:
    outcome = _WORDS[state].format(dependency.name)
    return Verdict(False, NEVER_SATISFIED, f"it waits for {dependency.wish}, and {outcome}")


def find_circle(name: str, list_waiting: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
    """Return the names of the jobs in a circle of dependencies, from `name` to itself; empty if there is no circle.

    list_waiting: returns the names of the jobs that depend on a job.
    """
    awaited = {name: ""}  # by name, the job through which the search reached it
    stack = [name]
    while stack:
        reached = stack.pop()
        for waiting in list_waiting(reached):
            if waiting == name:
                path = [name, reached]
                while path[-1] != name:
                    path.append(awaited[path[-1]])
                return tuple(path)
            if waiting not in awaited:
                awaited[waiting] = reached
                stack.append(waiting)
    return ()
