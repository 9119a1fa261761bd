"""Keep the runs of all jobs of a simulation: numbers in arrays, as there may be a million of them."""

from array import array
from math import nan

Amounts = tuple[tuple[str, int], ...]
"""Amounts by resource, in the units of decisions."""


class Runs:
    """The runs of all jobs. A job that was evicted has several.

    jobs, starts, ends: by run; the end is not a number while the job runs. lost: the seconds that an eviction undid;
    not a number without an eviction.
    pods: how many pods it has. continued: whether the job ran right before with another number of pods.
    demands: the number of what the job needs of the cluster while it runs, see `amounts`.
    """

    def __init__(self) -> None:
        self.jobs, self.demands, self.pods = array("q"), array("q"), array("q")
        self.continued = array("b")
        self.starts, self.ends, self.lost = array("d"), array("d"), array("d")
        self._amounts: dict[Amounts, int] = {}
        self._open: dict[int, int] = {}  # the run of each job that runs

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def is_any_open(self) -> bool:
        """Whether a job runs."""
        return bool(self._open)

    @property
    def amounts(self) -> list[Amounts]:
        """What jobs ask for, by the number of the demand."""
        return list(self._amounts)

    def start(self, job: int, at: float, demand: Amounts, pods: int, *, continued: bool = False) -> None:
        """Add a run that begins.

        demand: what the job needs of the cluster. pods: how many it has. continued: whether the job ran right before
        with another number of pods.
        """
        self._open[job] = len(self.jobs)
        self.jobs.append(job)
        self.starts.append(at)
        self.ends.append(nan)
        self.lost.append(nan)
        self.pods.append(pods)
        self.continued.append(continued)
        self.demands.append(self._amounts.setdefault(demand, len(self._amounts)))

    def end(self, job: int, at: float, *, lost: float = nan) -> None:
        """End the run of a job, if the job runs. lost: how many seconds of it are lost; NaN without an eviction."""
        if (run := self._open.pop(job, None)) is not None:
            self.ends[run] = at
            self.lost[run] = lost
