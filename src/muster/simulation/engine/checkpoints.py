"""Compute the run time of a job that writes checkpoints, and the work that an interruption leaves. Pure.

A job writes a checkpoint after each interval of work, except at its end. It does no work while it writes a checkpoint.
"""

from math import ceil, floor

from msgspec import Struct

from muster.simulation.scenario.draws import DrawError, parse_seconds
from muster.simulation.scenario.reading import Reading

# Times in a simulation are sums with rounding errors.
_ROUNDING = 1e-9
_LEAST_SECONDS = 1.0


class Checkpoints(Struct, frozen=True):
    """How a job writes checkpoints.

    every: the seconds of work between two checkpoints.
    cost: the seconds that writing a checkpoint takes.
    """

    every: float
    cost: float

    def compute_span(self, work: float) -> float:
        """Return the seconds that this many seconds of work take, including the time for writing checkpoints."""
        return work + self._count(work) * self.cost

    def measure_kept(self, work: float, ran: float) -> "RemainingWork":
        """Return what is kept and lost of `work` seconds of work if the job is interrupted after `ran` seconds."""
        written = min(self._count(work), floor(ran / (self.every + self.cost) + _ROUNDING))
        return RemainingWork(written * self.every, max(0.0, ran - written * (self.every + self.cost)))

    def _count(self, work: float) -> int:
        return max(0, ceil(work / self.every - _ROUNDING) - 1)


class RemainingWork(Struct, frozen=True):
    """The result of an interruption.

    work: the seconds of work that are kept and need not be repeated.
    lost: the seconds that are lost.
    """

    work: float
    lost: float


def measure_kept(checkpoints: Checkpoints | None, work: float, ran: float) -> RemainingWork:
    """Return what is kept and lost if a job is interrupted after `ran` seconds; without checkpoints all is lost."""
    return RemainingWork(0.0, ran) if checkpoints is None else checkpoints.measure_kept(work, ran)


def make_checkpoints(reading: Reading, number: int) -> Checkpoints | None:
    """Return how the jobs of a source of work write checkpoints; None if they write none.

    number: the index of the source in the scenario.

    Raises `ScenarioError` if an interval or a cost is missing, invalid or too short.
    """
    chosen = reading.scenario.spec.work[number].checkpoint
    if chosen is None:
        return None
    seconds = []
    for field in ("every", "cost"):
        path = f"spec.work[{number}].checkpoint.{field}"
        try:
            seconds.append(parse_seconds(getattr(chosen, field)))
        except DrawError as error:
            raise reading.source.error(path, error.why) from None
    if seconds[0] < _LEAST_SECONDS:
        raise reading.source.error(f"spec.work[{number}].checkpoint.every", f"must be at least {_LEAST_SECONDS:g}s")
    return Checkpoints(*seconds)
