"""The pods of a group, counted by how they do."""

from collections.abc import Iterable

from msgspec import Struct

from muster.api.core import Pod
from muster.api.pods import why_unplaced


class Census(Struct, frozen=True):
    """How many there are of each sort. Those on their way out are no members any more.

    pending: without a node. gated: of those, with scheduling gates. admitted: with a node, and not ended.
    running: of those, that run.
    told: what the scheduler said last of pods that it found no node for; "" if of none.
    owners: what controls the pods, `namespace/name` each.
    """

    pending: int = 0
    gated: int = 0
    admitted: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    told: str = ""
    owners: tuple[str, ...] = ()

    @property
    def members(self) -> int:
        """Those that live or have succeeded."""
        return self.pending + self.admitted + self.succeeded


def count(pods: Iterable[Pod]) -> Census:
    """The pods of one group."""
    numbers = dict.fromkeys(("pending", "gated", "admitted", "running", "succeeded", "failed"), 0)
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
        numbers["gated"] += bool(pod.spec.scheduling_gates)
        unplaced.append(pod)
    return Census(**numbers, told=why_unplaced(unplaced), owners=tuple(sorted(owners)))
