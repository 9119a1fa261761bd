"""Notice that nothing but time-outs can happen: jobs get quota, find no nodes, and back off, for ever."""

from muster.simulation.outcome.record import SimulationRecord

# After so many moments for each job, in which nothing came or started, nothing ever will.
_STILL_MOMENTS = 20


class Stillness:
    """The moments since a job last came or started."""

    def __init__(self, record: SimulationRecord) -> None:
        self._record = record
        self._moves = 0
        self._moments = 0

    def count_moment(self) -> None:
        """Count a moment at which something happened."""
        self._moments = self._moments + 1 if self._record.moves == self._moves else 0
        self._moves = self._record.moves

    @property
    def is_long(self) -> bool:
        """Whether a single job would have been tried so often that it never starts."""
        return self._moments > _STILL_MOMENTS

    def lasts(self, jobs: int) -> bool:
        """Return whether nothing runs, and each waiting job was tried so often that it never starts.

        jobs: how many wait.
        """
        return not self._record.runs.is_any_open and self._moments > _STILL_MOMENTS * jobs
