"""Logs of pods that are gone. Those of a Job, or of a JobSet, stay for as long as that does, within limits; others go
with their pod.

A pod's directory is kept as it is, without its volumes; its record says since when the pod is gone.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from muster.cluster.nodes.disk.storage import PodRecord, Storage
from muster.runtime.containerlogs import KeptPod

# For each rank of a Job, and of all on one node: the oldest go first.
MOST_OF_A_RANK = 5
MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class PastPod:
    """A pod that is gone, and how much its logs are."""

    record: PodRecord
    bytes: int


def surplus(pods: Iterable[PastPod]) -> list[PastPod]:
    """Which of them are too many."""
    of_rank: Counter[tuple[str, ...]] = Counter()
    whole, found = 0, []
    for pod in sorted(pods, key=lambda pod: (pod.record.gone, pod.record.uid), reverse=True):
        rank = pod.record.job, pod.record.role, pod.record.job_index, pod.record.rank
        of_rank[rank] += 1
        if of_rank[rank] > MOST_OF_A_RANK or whole + pod.bytes > MOST_BYTES:
            found.append(pod)
        else:
            whole += pod.bytes
    return found


class Past:
    """The pods of one node that are gone, by their uids."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._pods: dict[str, PastPod] = {}

    def keep(self, record: PodRecord, gone: str) -> list[Path]:
        """The pod is gone since then; what is to be removed now. Raises OSError."""
        place = self._storage.of(record.uid)
        record = msgspec.structs.replace(record, gone=gone)
        volumes = place.remove_volumes()
        place.write(record)
        self.restore(record)
        return [*volumes, *self._drop(surplus(self._pods.values()))]

    def restore(self, record: PodRecord) -> None:
        """The pod is gone, as its record says."""
        self._pods[record.uid] = PastPod(record, self._storage.of(record.uid).log_bytes())

    def forget(self, job: str) -> list[Path]:
        """A Job or JobSet, by its uid, is gone; what is to be removed."""
        return self._drop([pod for pod in self._pods.values() if pod.record.job == job])

    def of(self, job: str) -> Sequence[KeptPod]:
        """The pods of a Job or JobSet."""
        found = []
        for pod in self._pods.values():
            place, record = self._storage.of(pod.record.uid), pod.record
            if record.job == job:
                containers = {name: tuple(place.attempts(name)) for name in place.containers()}
                which = record.name, record.uid, record.rank, record.created
                found.append(KeptPod(*which, containers, role=record.role, job_index=record.job_index))
        return found

    def _drop(self, pods: Iterable[PastPod]) -> list[Path]:
        return [path for pod in pods for path in self._storage.of(self._pods.pop(pod.record.uid).record.uid).remove()]
