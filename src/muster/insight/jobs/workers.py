"""Describe the workers of a job: its pods by rank, with node, state, exit code and restarts. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from muster.api.core import ContainerStateTerminated, ContainerStatus, Pod
from muster.api.pods import is_deleting, is_finished, is_ready, rank_of, why_unplaced
from muster.insight.jobs.failures import describe_pod_end, explain_waiting, find_failures
from muster.insight.record import JobRecord, container_statuses, is_indexed
from muster.jobs.job.census import failures_of_index

# The maximum number of digits of a rank.
_MOST_DIGITS = 9


class Worker(Struct, frozen=True):
    """A worker of a job and its state.

    title: the prefix of its log lines, such as `3` or `driver 0`.
    state: one of the state words of jobs.
    exit_code: the code of the container that failed first, or else of the one that ended last; None while one runs.
    restarts: how many times its containers restarted and its pods were replaced.
    """

    rank: str
    title: str
    pod: str
    namespace: str
    node: str
    state: str
    reason: str = ""
    exit_code: int | None = None
    restarts: int = 0
    started: datetime | None = None
    ended: datetime | None = None


class Place(Struct, frozen=True):
    """The newest pod of a worker.

    replaced: how many earlier pods had the same rank.
    """

    rank: str
    pod: Pod
    replaced: int


def order_workers(job: JobRecord | None, pods: Iterable[Pod]) -> list[Place]:
    """Return the newest pod of each rank, in order. Pods without a rank are all returned.

    job: the job; None for pods that no job owns.
    """
    newest: dict[str, Place] = {}
    for pod in sorted(pods, key=_make_age_key):
        rank = _find_rank(job, pod)
        key = rank if is_indexed(pod) else pod.metadata.name
        newest[key] = Place(rank, pod, newest[key].replaced + 1 if key in newest else 0)
    return sorted(newest.values(), key=lambda place: _make_rank_key(place.rank))


def make_worker(job: JobRecord | None, place: Place) -> Worker:
    """Return a worker with the state, the reason and the times of its newest pod.

    job: the job; None for pods that no job owns.
    """
    rank, pod = place.rank, place.pod
    state, statuses = find_pod_state(pod), container_statuses(pod)
    last = _find_last_end(statuses)
    return Worker(
        rank=rank,
        title=job.title_of(rank) if job is not None and is_indexed(pod) else rank,
        pod=pod.metadata.name,
        namespace=pod.metadata.namespace,
        node=pod.spec.node_name,
        state=state,
        reason=explain_pod(job, pod, state),
        exit_code=last.exit_code if last is not None else None,
        restarts=sum(one.restart_count for one in statuses) + max(place.replaced, sum(failures_of_index(pod))),
        started=pod.status.start_time,
        ended=last.finished_at if last is not None and is_finished(pod) else None,
    )


def find_pod_state(pod: Pod) -> str:
    """Return the state of a pod, as one of the state words of jobs."""
    match pod.status.phase:
        case "Succeeded":
            return "Completed"
        case "Failed":
            return "Failed"
    if is_deleting(pod):
        return "Deleting"
    if pod.status.phase == "Running" and is_ready(pod):
        return "Running"
    return "Starting" if pod.spec.node_name else "Pending"


def explain_pod(job: JobRecord | None, pod: Pod, state: str) -> str:
    """Return why a pod is in this state; "" if the state needs no reason.

    job: the job; None for a pod that no job owns.
    """
    if state in ("Failed", "Retrying"):
        return describe_pod_end(pod) if job is None else next((one.alone for one in find_failures(job, [pod])), "")
    if state in ("Pending", "Starting"):
        waits = explain_waiting(job, pod) if job is not None else ()
        return next(iter(waits), "") or why_unplaced([pod])
    return ""


def _find_last_end(statuses: Sequence[ContainerStatus]) -> ContainerStateTerminated | None:
    """Return the end of the container that failed first, or else of the one that ended last.

    Return None while a container runs.
    """
    ends = [one.state.terminated for one in statuses if one.state.terminated is not None]
    failed = [one for one in ends if one.exit_code]
    if failed:
        return min(failed, key=_end_key)
    return max(ends, key=_end_key) if ends and len(ends) == len(statuses) else None


def _end_key(ended: ContainerStateTerminated) -> float:
    return ended.finished_at.timestamp() if ended.finished_at is not None else 0.0


def _find_rank(job: JobRecord | None, pod: Pod) -> str:
    return job.rank(pod) if job is not None else rank_of(pod)


def _make_rank_key(rank: str) -> tuple[int, str]:
    is_number = rank.isascii() and rank.isdecimal() and len(rank) <= _MOST_DIGITS
    return int(rank) if is_number else -1, rank


def _make_age_key(pod: Pod) -> tuple[str, int]:
    return str(pod.metadata.creation_timestamp), sum(failures_of_index(pod))
