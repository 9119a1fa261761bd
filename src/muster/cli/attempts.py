"""The runs of a job's workers, those of pods that are gone too, in the order in which they were. Pure.

A worker has several when it failed and was started anew, was preempted, or came back after its job had been smaller.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.api.batch import JOB
from muster.api.core import POD, Pod
from muster.api.pods import rank_of
from muster.runtime.containerlogs import KeptPod

# As many runs of one container are kept, with the current one.
_KEPT = 3


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a container of a worker.

    path, query: where its log is. gone: its pod is no more. newest: it is the last of its pod.
    """

    rank: str
    container: str
    pod: str
    path: str
    query: Mapping[str, str]
    gone: bool
    newest: bool


def attempts(job: str, namespace: str, pods: Iterable[Pod], kept: Iterable[KeptPod], *, ours: bool) -> list[Attempt]:
    """All of them, by rank and container; `ours`: the server is ours, and knows more than upstream's."""
    found = [(rank_key(pod.rank), pod.created, _of_kept(job, namespace, pod)) for pod in kept]
    for pod in pods:
        created = pod.metadata.creation_timestamp
        of_pod = _of_pod(pod, ours=ours)
        found.append((rank_key(rank_of(pod)), created.isoformat() if created is not None else "", of_pod))
    ordered = [attempt for _, _, of_pod in sorted(found, key=lambda entry: entry[:2]) for attempt in of_pod]
    return sorted(ordered, key=lambda attempt: (rank_key(attempt.rank), attempt.container))


def rank_key(rank: str) -> tuple[int, str]:
    """Ranks in the order of their numbers."""
    return len(rank), rank


def chosen(found: Iterable[Attempt], number: int | None, *, previous: bool) -> list[Attempt]:
    """Of each worker the run of this number, counted from 1, or the one before the last.

    Otherwise what there is of the pods that are there, and of the last one of a worker that has none.
    """
    by_worker: dict[tuple[str, str], list[Attempt]] = {}
    for attempt in found:
        by_worker.setdefault((attempt.rank, attempt.container), []).append(attempt)
    if number is not None:
        return [runs[number - 1] for runs in by_worker.values() if 0 < number <= len(runs)]
    if previous:
        return [runs[-2] for runs in by_worker.values() if len(runs) > 1]
    there = {worker: [run for run in runs if not run.gone and run.newest] for worker, runs in by_worker.items()}
    return [run for worker, runs in by_worker.items() for run in there[worker] or runs[-1:]]


def _of_kept(job: str, namespace: str, pod: KeptPod) -> list[Attempt]:
    path = JOB.path(namespace, job, "log")
    return [
        Attempt(
            pod.rank,
            container,
            pod.name,
            path,
            {"uid": pod.uid, "container": container, "attempt": str(number)},
            gone=True,
            newest=number == numbers[-1],
        )
        for container, numbers in pod.containers.items()
        for number in numbers
    ]


def _of_pod(pod: Pod, *, ours: bool) -> list[Attempt]:
    path, found = POD.path(pod.metadata.namespace, pod.metadata.name, "log"), []
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        newest = status.restart_count
        states = (status.state.running, status.state.terminated, status.last_state.terminated)
        if all(state is None for state in states):
            continue
        for number in range(max(newest + 1 - (_KEPT if ours else 2), 0), newest + 1):
            older = {"attempt": str(number)} if ours else {"previous": "true"}
            query = {"container": status.name} | (older if number < newest else {})
            found.append(
                Attempt(rank_of(pod), status.name, pod.metadata.name, path, query, gone=False, newest=number == newest)
            )
    return found
