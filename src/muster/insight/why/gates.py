"""The scheduling gates of pods: how many pods each gate holds, and who removes it. Pure."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from muster.api.core import Pod
from muster.api.kueue.names import ADMISSION_GATE, TOPOLOGY_GATE
from muster.jobs.job.quota import GATE as ELASTIC_GATE

# When the engine removes each of its own gates.
_WHEN: Final = {
    ADMISSION_GATE: "once the workload is admitted",
    TOPOLOGY_GATE: "once the pod's place is known, or at once where none is given",
    ELASTIC_GATE: "once there is quota for the larger size",
}


class Gate(Struct, frozen=True):
    """A scheduling gate.

    pods: the number of pods that have it.
    opener: the program that removes the gate, and when.
    """

    name: str
    pods: int
    opener: str

    def __str__(self) -> str:
        """Return the gate as a sentence."""
        return f"gate {self.name} holds {self.pods} pod{'s' * (self.pods != 1)}: {self.opener}"


def find_gates(pods: Iterable[Pod]) -> tuple[Gate, ...]:
    """Return the gates of pods, ordered by name, with the number of pods that have each."""
    counts = Counter(gate.name for pod in pods for gate in pod.spec.scheduling_gates)
    return tuple(Gate(name, count, _name_opener(name)) for name, count in sorted(counts.items()))


def _name_opener(gate: str) -> str:
    when = _WHEN.get(gate)
    return f"Muster takes it off {when}" if when else "the program that set it takes it off, Muster does not"
