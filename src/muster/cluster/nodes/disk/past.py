"""Keep the logs of deleted pods of a Job or JobSet, within limits, as long as the Job or JobSet exists.

A pod's directory stays where it is, without its volumes; its record contains the time of the deletion. Logs of other
pods are deleted with their pod.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from muster.cluster.nodes.disk.storage import PodRecord, Storage
from muster.runtime.containerlogs import KeptPod

# The limits for each rank of a Job, and for all logs on one node. The oldest logs are removed first.
MOST_OF_A_RANK = 5
MOST_BYTES = 1 << 30


class PastPod(msgspec.Struct, frozen=True):
    """A deleted pod, with the size of its logs in bytes."""

    record: PodRecord
    bytes: int


def find_surplus(pods: Iterable[PastPod]) -> list[PastPod]:
    """Return the pods whose logs must be deleted.

    One limit applies to the number of pods of each rank, another to the total size of the logs. The newest logs stay.
    """
    of_rank: Counter[tuple[str, ...]] = Counter()
    total_bytes, excess = 0, []
    for pod in sorted(pods, key=lambda pod: (pod.record.gone, pod.record.uid), reverse=True):
        rank = pod.record.job, pod.record.role, pod.record.job_index, pod.record.rank
        of_rank[rank] += 1
        if of_rank[rank] > MOST_OF_A_RANK or total_bytes + pod.bytes > MOST_BYTES:
            excess.append(pod)
        else:
            total_bytes += pod.bytes
    return excess


class Past:
    """The deleted pods of one node whose logs are kept, by UID."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._pods: dict[str, PastPod] = {}

    def keep(self, record: PodRecord, gone: str) -> list[Path]:
        """Keep the logs of a pod that was deleted at `gone`; return the paths to remove now. Raises OSError.

        The paths are the pod's volumes, and older logs that exceed the limits.
        """
        place = self._storage.of(record.uid)
        record = msgspec.structs.replace(record, gone=gone)
        volumes = place.remove_volumes()
        place.write(record)
        self.restore(record)
        return [*volumes, *self._forget_pods(find_surplus(self._pods.values()))]

    def restore(self, record: PodRecord) -> None:
        """Add a deleted pod whose record and logs are on disk."""
        self._pods[record.uid] = PastPod(record, self._storage.of(record.uid).log_bytes())

    def forget(self, job: str) -> list[Path]:
        """Drop the deleted pods of a deleted Job or JobSet; return the paths to remove. job: the UID."""
        return self._forget_pods([pod for pod in self._pods.values() if pod.record.job == job])

    def of(self, job: str) -> Sequence[KeptPod]:
        """Return the deleted pods of a Job or JobSet whose logs are kept. job: the UID."""
        pods = []
        for pod in self._pods.values():
            place, record = self._storage.of(pod.record.uid), pod.record
            if record.job == job:
                containers = {name: tuple(place.attempts(name)) for name in place.containers()}
                which = record.name, record.uid, record.rank, record.created
                pods.append(KeptPod(*which, containers, role=record.role, job_index=record.job_index))
        return pods

    def _forget_pods(self, pods: Iterable[PastPod]) -> list[Path]:
        return [path for pod in pods for path in self._storage.of(self._pods.pop(pod.record.uid).record.uid).remove()]
