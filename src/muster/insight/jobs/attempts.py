"""List the runs of the containers of a job's workers in time order, to find their logs. Pure.

Runs in deleted pods are included. A worker has several attempts if it failed and was restarted, if it was preempted, or
if its job shrank and grew. The workers of an Indexed Job are its indexes. A Job without indexes that runs one pod at a
time has one worker, whose pods follow each other. If a Job without indexes runs several pods at the same time, each pod
is a worker, because it is unknown which pod replaces which.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from muster.api.core import POD, Pod
from muster.api.jobset.names import GROUP_SCHEDULING_INIT
from muster.insight.record import JobRecord, container_statuses
from muster.runtime.containerlogs import KeptPod

# The number of runs of one container whose logs are kept, including the current one.
_KEPT = 3


class WorkerAttempt(Struct, frozen=True):
    """One run of one container of a worker.

    rank: the prefix of the worker's log lines.
    worker: the worker, as the module defines it.
    pod, uid: the name and the UID of the pod that ran it.
    path, query: the URL path and query of its log.
    gone: whether the pod is deleted.
    newest: whether it is the last run of the container in its pod.
    """

    rank: str
    worker: str
    container: str
    pod: str
    uid: str
    path: str
    query: Mapping[str, str]
    gone: bool
    newest: bool


def list_attempts(
    job: JobRecord, pods: Iterable[Pod], kept_pods: Iterable[KeptPod], *, ours: bool
) -> list[WorkerAttempt]:
    """Return all runs of the workers' containers, of existing and deleted pods, by rank and container.

    kept_pods: the deleted pods whose logs are kept.
    ours: whether the server is Muster's own, which keeps the logs of more runs than upstream's.
    """
    attempts = [(pod.created, _list_attempts_of_kept_pod(job, pod)) for pod in kept_pods]
    for pod in pods:
        created = pod.metadata.creation_timestamp
        attempts.append(
            (created.isoformat() if created is not None else "", _list_attempts_of_pod(job, pod, ours=ours))
        )
    ordered = [attempt for _, of_pod in sorted(attempts, key=lambda entry: entry[0]) for attempt in of_pod]
    place = _order_containers(job)

    def position(attempt: WorkerAttempt) -> tuple[Any, ...]:
        rank = _make_rank_key(attempt.rank) if job.indexed else ()
        return rank, place.get(attempt.container, len(place)), attempt.container

    return sorted(ordered, key=position)


def _order_containers(job: JobRecord) -> dict[str, int]:
    """Return the position of each container in the order in which they start, by name.

    Init containers come first, then the others in the order of the templates.
    """
    specs = [template.spec for template in job.templates]
    initial = (one.name for spec in specs for one in spec.init_containers)
    names = dict.fromkeys((*initial, *(one.name for spec in specs for one in spec.containers)))
    return {name: number for number, name in enumerate(names)}


def _make_rank_key(rank: str) -> tuple[int, str]:
    """Return the sort key that orders ranks by their numbers."""
    return len(rank), rank


def _name_worker(job: JobRecord, rank: str) -> str:
    return rank if job.indexed or job.max_ranks > 1 else ""


def choose_attempts(attempts: Iterable[WorkerAttempt], number: int | None, *, previous: bool) -> list[WorkerAttempt]:
    """Return one attempt of each worker's containers: the one with this number (from 1), or the one before the last.

    A worker without such an attempt is left out. If the user requests neither, return the current attempts; for a
    worker without a pod, its last attempt.
    """
    by_worker: dict[tuple[str, str], list[WorkerAttempt]] = {}
    for attempt in attempts:
        by_worker.setdefault((attempt.worker, attempt.container), []).append(attempt)
    if number is not None:
        return [runs[number - 1] for runs in by_worker.values() if 0 < number <= len(runs)]
    if previous:
        return [runs[-2] for runs in by_worker.values() if len(runs) > 1]
    there = {worker: [run for run in runs if not run.gone and run.newest] for worker, runs in by_worker.items()}
    return [run for worker, runs in by_worker.items() for run in there[worker] or runs[-1:]]


def _list_attempts_of_kept_pod(job: JobRecord, pod: KeptPod) -> list[WorkerAttempt]:
    path, rank = job.kind.path(job.metadata.namespace, job.metadata.name, "log"), job.kept_rank(pod)
    return [
        WorkerAttempt(
            rank,
            _name_worker(job, rank),
            container,
            pod.name,
            pod.uid,
            path,
            {"uid": pod.uid, "container": container, "attempt": str(number)},
            gone=True,
            newest=number == numbers[-1],
        )
        for container, numbers in pod.containers.items()
        if container != GROUP_SCHEDULING_INIT
        for number in numbers
    ]


def _list_attempts_of_pod(job: JobRecord, pod: Pod, *, ours: bool) -> list[WorkerAttempt]:
    path, attempts = POD.path(pod.metadata.namespace, pod.metadata.name, "log"), []
    rank, name, uid = job.rank(pod), pod.metadata.name, pod.metadata.uid
    for status in container_statuses(pod):
        newest = status.restart_count
        states = (status.state.running, status.state.terminated, status.last_state.terminated)
        if all(state is None for state in states):
            continue
        for number in range(max(newest + 1 - (_KEPT if ours else 2), 0), newest + 1):
            older = {"attempt": str(number)} if ours else {"previous": "true"}
            query = {"container": status.name} | (older if number < newest else {})
            worker, is_newest = _name_worker(job, rank), number == newest
            attempts.append(
                WorkerAttempt(rank, worker, status.name, name, uid, path, query, gone=False, newest=is_newest)
            )
    return attempts
