"""Count the pods of a group by state."""

from collections.abc import Iterable

from msgspec import Struct

from muster.api.core import Pod
from muster.api.pods import why_unplaced


class Census(Struct, frozen=True):
    """The number of a group's pods in each state. Pods that are being deleted do not count.

    pending: pods without a node.
    admitted: pods with a node that have not ended.
    running: admitted pods that run.
    told: the scheduler's last message about a pod without a node; "" if there is none.
    owners: the controllers of the pods, as `namespace/name`.
    """

    pending: int = 0
    admitted: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    told: str = ""
    owners: tuple[str, ...] = ()

    @property
    def members(self) -> int:
        """The number of pods that have not ended or have succeeded."""
        return self.pending + self.admitted + self.succeeded


def count(pods: Iterable[Pod]) -> Census:
    """Return the census of the pods of one group."""
    numbers = dict.fromkeys(("pending", "admitted", "running", "succeeded", "failed"), 0)
    owners, unplaced = set[str](), list[Pod]()
    for pod in pods:
        if pod.status.phase in ("Succeeded", "Failed"):
            numbers[pod.status.phase.lower()] += 1
            continue
        if pod.metadata.deletion_timestamp is not None:
            continue
        owners |= {f"{pod.metadata.namespace}/{ref.name}" for ref in pod.metadata.owner_references}
        if pod.spec.node_name:
            numbers["admitted"] += 1
            numbers["running"] += pod.status.phase == "Running"
            continue
        numbers["pending"] += 1
        unplaced.append(pod)
    return Census(**numbers, told=why_unplaced(unplaced), owners=tuple(sorted(owners)))
