"""Detect that nothing but timeouts can happen any more: jobs get quota, find no nodes, and back off, forever."""

from muster.simulation.outcome.record import SimulationRecord

# The number of event times per waiting job, without a submission or start, after which nothing will ever start.
_STILL_MOMENTS = 20


class Stillness:
    """A counter of the event times since the last submission or start of a job."""

    def __init__(self, record: SimulationRecord) -> None:
        self._record = record
        self._moves = 0
        self._moments = 0

    def count_moment(self) -> None:
        """Count a time at which events happened."""
        self._moments = self._moments + 1 if self._record.moves == self._moves else 0
        self._moves = self._record.moves

    @property
    def is_long(self) -> bool:
        """Whether a single waiting job would have been tried so often that it will never start."""
        return self._moments > _STILL_MOMENTS

    def lasts(self, jobs: int) -> bool:
        """Return whether nothing runs, and each waiting job was tried so often that it will never start.

        jobs: the number of waiting jobs.
        """
        return not self._record.runs.is_any_open and self._moments > _STILL_MOMENTS * jobs
