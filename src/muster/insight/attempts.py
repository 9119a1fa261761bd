"""The runs of a job's workers, those of pods that are gone too, in the order in which they were. Pure.

A worker has several when it failed and was started anew, was preempted, or came back after its job had been smaller.
Workers of an Indexed Job are its indexes. Another Job of one pod at a time has one, whose pods come one after the
other; of one with more, each pod is a worker, because nothing says in whose stead it came.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.api.core import POD, Pod
from muster.api.jobset.names import GROUP_SCHEDULING_INIT
from muster.insight.record import JobRecord, statuses
from muster.runtime.containerlogs import KeptPod

# As many runs of one container are kept, with the current one.
_KEPT = 3


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a container of a worker.

    rank: what its lines are marked with. worker: whose run it is, see above.
    pod, uid: which pod's. path, query: where its log is. gone: its pod is no more. newest: it is the last of its pod.
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


def attempts(job: JobRecord, pods: Iterable[Pod], kept: Iterable[KeptPod], *, ours: bool) -> list[Attempt]:
    """All of them, by index and container; `ours`: the server is ours, and knows more than upstream's."""
    found = [(pod.created, _of_kept(job, pod)) for pod in kept]
    for pod in pods:
        created = pod.metadata.creation_timestamp
        found.append((created.isoformat() if created is not None else "", _of_pod(job, pod, ours=ours)))
    ordered = [attempt for _, of_pod in sorted(found, key=lambda entry: entry[0]) for attempt in of_pod]
    place = _places(job)

    def position(attempt: Attempt) -> tuple[Any, ...]:
        rank = _in_order(attempt.rank) if job.indexed else ()
        return rank, place.get(attempt.container, len(place)), attempt.container

    return sorted(ordered, key=position)


def _places(job: JobRecord) -> dict[str, int]:
    """When its containers start: initial ones before the others, and otherwise as they are written."""
    specs = [template.spec for template in job.templates]
    initial = (one.name for spec in specs for one in spec.init_containers)
    names = dict.fromkeys((*initial, *(one.name for spec in specs for one in spec.containers)))
    return {name: number for number, name in enumerate(names)}


def _in_order(rank: str) -> tuple[int, str]:
    """Ranks in the order of their numbers."""
    return len(rank), rank


def _worker(job: JobRecord, rank: str) -> str:
    return rank if job.indexed or job.most > 1 else ""


def chosen(found: Iterable[Attempt], number: int | None, *, previous: bool) -> list[Attempt]:
    """Of each worker the run of this number, counted from 1, or the one before the last.

    Otherwise what there is of the pods that are there, and of the last one of a worker that has none.
    """
    by_worker: dict[tuple[str, str], list[Attempt]] = {}
    for attempt in found:
        by_worker.setdefault((attempt.worker, attempt.container), []).append(attempt)
    if number is not None:
        return [runs[number - 1] for runs in by_worker.values() if 0 < number <= len(runs)]
    if previous:
        return [runs[-2] for runs in by_worker.values() if len(runs) > 1]
    there = {worker: [run for run in runs if not run.gone and run.newest] for worker, runs in by_worker.items()}
    return [run for worker, runs in by_worker.items() for run in there[worker] or runs[-1:]]


def _of_kept(job: JobRecord, pod: KeptPod) -> list[Attempt]:
    path, rank = job.kind.path(job.metadata.namespace, job.metadata.name, "log"), job.kept_rank(pod)
    return [
        Attempt(
            rank,
            _worker(job, rank),
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


def _of_pod(job: JobRecord, pod: Pod, *, ours: bool) -> list[Attempt]:
    path, found = POD.path(pod.metadata.namespace, pod.metadata.name, "log"), []
    rank, name, uid = job.rank(pod), pod.metadata.name, pod.metadata.uid
    for status in statuses(pod):
        newest = status.restart_count
        states = (status.state.running, status.state.terminated, status.last_state.terminated)
        if all(state is None for state in states):
            continue
        for number in range(max(newest + 1 - (_KEPT if ours else 2), 0), newest + 1):
            older = {"attempt": str(number)} if ours else {"previous": "true"}
            query = {"container": status.name} | (older if number < newest else {})
            worker, is_newest = _worker(job, rank), number == newest
            found.append(Attempt(rank, worker, status.name, name, uid, path, query, gone=False, newest=is_newest))
    return found
