"""Find the gangs that a gang preempts on their nodes, by the priority of their pods. Pure."""

from collections.abc import Iterable, Sequence
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from muster.api.core import Pod
from muster.gang.order.preemption import Candidate, compute_resistance, compute_strength, protected_until


class Precedence(Struct, frozen=True):
    """The gangs that a gang may preempt, and the gangs that may preempt it.

    strength: the gang preempts gangs with a lower resistance; None if it preempts none.
    resistance: a gang with a higher strength may preempt this gang; None if none may.
    protection: the seconds after its start during which it is not preempted.
    """

    strength: int | None = None
    resistance: int | None = None
    protection: float = 0.0

    @classmethod
    def of(cls, pods: Sequence[Pod], least: float) -> Self:
        """Return the precedence of a gang with these kinds of pods.

        least: the minimum protection of every gang, in seconds.
        """
        return cls(
            compute_strength(pods), compute_resistance(pods), max(protected_until(pod, 0.0, least) for pod in pods)
        )

    def with_priority(self, priority: int) -> Self:
        """Return the precedence that the gang would have if all its pods had this priority."""
        return replace(
            self,
            strength=None if self.strength is None else priority,
            resistance=None if self.resistance is None else priority,
        )

    def candidate(self, key: str, guests: Sequence[str], started: float) -> Candidate | None:
        """Return the gang as a candidate for preemption with all its pods; None if no gang may preempt it.

        guests: the ids under which the gang's pods are recorded on nodes.
        started: the start time, in seconds since the epoch.
        """
        if self.resistance is None:
            return None
        return Candidate(key, guests, self.resistance, started, protected=started + self.protection)


PRECEDES_NONE = Precedence()


def find_end_of_protection(candidates: Iterable[Candidate], strength: int, now: float) -> float | None:
    """Return when the first candidate weaker than `strength` loses its protection; None if none is protected."""
    times = (one.protected for one in candidates if one.resistance < strength and one.protected > now)
    return min(times, default=None)
