"""Restarts in place: containers begin anew in their pods, and none goes on before all have (KEP-467). Pure.

An agent in each pod counts its own starts in an annotation, and holds its worker back until the JobSet's status says
that this attempt goes on; if the status says that its attempt is over, it exits, and the node starts it again.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.jobset import FailurePolicy, JobSet, names
from muster.jobs.jobset.conditions import Record

_MOST = 2**31 - 1


class PodAttempt(Struct, frozen=True):
    """How often a pod was started again, as far as it is known.

    attempt: as its agent counts; None before it has said so.
    restarts: of the container of it that was restarted most.
    """

    attempt: int | None = None
    restarts: int = 0


class InPlaceStanding(Struct, frozen=True):
    """The pods of a JobSet.

    attempts: how many of them are in each attempt.
    restarts: of the container that was restarted most.
    """

    attempts: Mapping[int, int]
    restarts: int = 0


NO_PODS = InPlaceStanding({})


def attempt_of(pod: Pod) -> PodAttempt:
    """What a pod says. One that has failed may still be there when another has taken its place."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    restarts = max((status.restart_count for status in statuses), default=0)
    said = pod.metadata.annotations.get(names.IN_PLACE_RESTART_ATTEMPT, "")
    # What is no number is as if nothing were said: upstream would not look at the JobSet any more.
    counts = pod.status.phase != "Failed" and said.isascii() and said.isdigit() and len(said) <= len(str(_MOST))
    return PodAttempt(int(said) if counts and int(said) <= _MOST else None, restarts)


def next_attempts(jobset: JobSet, standing: InPlaceStanding) -> tuple[int | None, int | None] | None:
    """The attempt that is over, with all before it, and the one that goes on; None if there were too many.

    The first of them never falls: a pod that had come further may be gone for the time being.
    """
    status, policy = jobset.status, jobset.spec.failure_policy
    over, going = status.previous_in_place_restart_attempt, status.current_in_place_restart_attempt
    if policy is None or policy.restart_strategy != names.IN_PLACE_RESTART:
        return over, going
    latest = max(standing.attempts, default=0)
    if _is_too_much(jobset, policy, latest, standing.restarts):
        return None
    if len(standing.attempts) == 1 and standing.attempts[latest] == _pods(jobset):
        return over, latest
    if latest > 0:
        return max(latest - 1, over or 0), going
    return over, going


def in_place(jobset: JobSet, record: Record, standing: InPlaceStanding) -> Record:
    """The status with what the agents go by."""
    attempts = next_attempts(jobset, standing)
    if attempts is None:
        return record.failed("ReachedMaxRestarts", "jobset failed due to reaching max number of restarts")
    over, going = attempts
    return record.with_status(
        replace(record.status, previous_in_place_restart_attempt=over, current_in_place_restart_attempt=going)
    )


def _is_too_much(jobset: JobSet, policy: FailurePolicy, latest: int, restarts: int) -> bool:
    """A container that fails at once is restarted by its node, and its agent never gets to count that."""
    uncounted = jobset.status.restarts - jobset.status.restarts_count_towards_max
    return max(restarts, latest - uncounted) > policy.max_restarts


def _pods(jobset: JobSet) -> int:
    """How many there are to be: each has an index of its own, for completions are as many as run at once."""
    return sum(role.replicas * (role.template.spec.parallelism or 0) for role in jobset.spec.replicated_jobs)
