"""Decide restarts in place: containers restart in their pods, and all wait for each other (jobset KEP-467). Pure.

An agent in each pod counts its own starts in an annotation. It does not start its worker until the JobSet's status says
that this attempt runs. If the status says that the agent's attempt is over, the agent exits and the node restarts its
container.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.jobset import FailurePolicy, JobSet, names
from muster.jobs.jobset.conditions import StatusRecord

_MOST = 2**31 - 1


class PodAttempt(Struct, frozen=True):
    """The restarts in place of one pod.

    attempt: how often the pod's agent has started, by its own count; None without a valid count, and for a failed pod.
    restarts: the restart count of the container that was restarted most often.
    """

    attempt: int | None = None
    restarts: int = 0


class RestartCounts(Struct, frozen=True):
    """The restarts in place of all pods of a JobSet.

    attempts: how many pods are in each attempt.
    restarts: the restart count of the container that was restarted most often.
    """

    attempts: Mapping[int, int]
    restarts: int = 0


NO_PODS = RestartCounts({})


def attempt_of(pod: Pod) -> PodAttempt:
    """Return the attempt that a pod's agent has recorded, and the pod's restarts.

    A failed pod has the attempt None, because its replacement may exist at the same time.
    """
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    restarts = max((status.restart_count for status in statuses), default=0)
    text = pod.metadata.annotations.get(names.IN_PLACE_RESTART_ATTEMPT, "")
    # An invalid number is ignored; upstream would stop reconciling the JobSet.
    counts = pod.status.phase != "Failed" and text.isascii() and text.isdigit() and len(text) <= len(str(_MOST))
    return PodAttempt(int(text) if counts and int(text) <= _MOST else None, restarts)


def next_attempts(jobset: JobSet, standing: RestartCounts) -> tuple[int | None, int | None] | None:
    """Return the latest attempt that is over, and the attempt that may run now. None for a number: there is none yet.

    Return None if there were too many attempts. The first number never decreases, although a pod in a later attempt may
    be missing for a moment.
    """
    status, policy = jobset.status, jobset.spec.failure_policy
    over, going = status.previous_in_place_restart_attempt, status.current_in_place_restart_attempt
    if policy is None or policy.restart_strategy != names.IN_PLACE_RESTART:
        return over, going
    latest = max(standing.attempts, default=0)
    if _is_over_limit(jobset, policy, latest, standing.restarts):
        return None
    if len(standing.attempts) == 1 and standing.attempts[latest] == _count_pods(jobset):
        return over, latest
    if latest > 0:
        return max(latest - 1, over or 0), going
    return over, going


def in_place(jobset: JobSet, record: StatusRecord, standing: RestartCounts) -> StatusRecord:
    """Return the record with the attempts of `next_attempts` in the status, where the pods' agents read them.

    If there were too many attempts, the record fails the JobSet.
    """
    attempts = next_attempts(jobset, standing)
    if attempts is None:
        return record.mark_failed("ReachedMaxRestarts", "jobset failed due to reaching max number of restarts")
    over, going = attempts
    return record.with_status(
        replace(record.status, previous_in_place_restart_attempt=over, current_in_place_restart_attempt=going)
    )


def _is_over_limit(jobset: JobSet, policy: FailurePolicy, latest: int, restarts: int) -> bool:
    """Return whether the restarts of the JobSet exceed the limit of its failure policy.

    The restart count of the containers matters, too: an agent does not count the restarts of a container that fails
    immediately.
    """
    uncounted = jobset.status.restarts - jobset.status.restarts_count_towards_max
    return max(restarts, latest - uncounted) > policy.max_restarts


def _count_pods(jobset: JobSet) -> int:
    """Return how many pods the JobSet has: each has its own index, because completions equal parallelism."""
    return sum(role.replicas * (role.template.spec.parallelism or 0) for role in jobset.spec.replicated_jobs)
