"""Keep the runs of all jobs of a simulation: numbers in arrays, as there may be a million of them."""

from array import array
from math import nan

Amounts = tuple[tuple[str, int], ...]
"""Amounts by resource, in the units of decisions."""


class Runs:
    """The runs of all jobs. A job that is evicted has several.

    jobs, starts, ends: by run; the end is not a number while the job runs. lost: 1 if the run ended in vain.
    demands: the number of what the job asks of the cluster while it runs, see `amounts`.
    """

    def __init__(self) -> None:
        self.jobs, self.demands, self.lost = array("q"), array("q"), array("b")
        self.starts, self.ends = array("d"), array("d")
        self._amounts: dict[Amounts, int] = {}
        self._open: dict[int, int] = {}  # the run of each job that runs

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def amounts(self) -> list[Amounts]:
        """What jobs ask for, by the number of the demand."""
        return list(self._amounts)

    def start(self, job: int, at: float, demand: Amounts) -> None:
        """Add a run that begins."""
        self._open[job] = len(self.jobs)
        self.jobs.append(job)
        self.starts.append(at)
        self.ends.append(nan)
        self.lost.append(0)
        self.demands.append(self._amounts.setdefault(demand, len(self._amounts)))

    def end(self, job: int, at: float, *, lost: bool = False) -> None:
        """End the run of a job, if the job runs."""
        if (run := self._open.pop(job, None)) is not None:
            self.ends[run] = at
            self.lost[run] = lost
