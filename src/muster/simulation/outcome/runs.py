"""Record the runs of all jobs of a simulation, as numbers in arrays, because there may be a million jobs."""

from array import array
from math import nan

Amounts = tuple[tuple[str, int], ...]
"""Amounts by resource, in the units of decisions."""


class Runs:
    """The runs of all jobs. A job that was evicted, interrupted or resized has several runs.

    jobs, starts, ends: arrays with one entry per run; the end is NaN while the job runs.
    lost: the seconds that an eviction or interruption wasted; NaN if the run ended otherwise.
    interrupted: whether the job lost nodes, which ended the run.
    pods: the number of pods.
    continued: whether the job ran directly before, with another number of pods.
    demands: the number of the amounts that the job needs while it runs; see `amounts`.
    """

    def __init__(self) -> None:
        self.jobs, self.demands, self.pods = array("q"), array("q"), array("q")
        self.continued, self.interrupted = array("b"), array("b")
        self.starts, self.ends, self.lost = array("d"), array("d"), array("d")
        self._amounts: dict[Amounts, int] = {}
        self._open: dict[int, int] = {}  # the run of each running job
        self._late: set[int] = set()  # the running jobs whose pods will not be ready in time

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def is_any_open(self) -> bool:
        """Whether a job runs, except for jobs that will be evicted before their pods are ready."""
        return len(self._open) > len(self._late)

    @property
    def amounts(self) -> list[Amounts]:
        """The amounts that jobs request, by the number of the demand."""
        return list(self._amounts)

    def start(
        self, job: int, at: float, demand: Amounts, pods: int, *, continued: bool = False, is_late: bool = False
    ) -> None:
        """Add a run that starts.

        demand: the amounts that the job needs from the cluster.
        pods: the number of pods.
        continued: whether the job ran directly before, with another number of pods.
        is_late: whether the job will be evicted before its pods are ready.
        """
        if is_late:
            self._late.add(job)
        self._open[job] = len(self.jobs)
        self.jobs.append(job)
        self.starts.append(at)
        self.ends.append(nan)
        self.lost.append(nan)
        self.pods.append(pods)
        self.continued.append(continued)
        self.interrupted.append(False)
        self.demands.append(self._amounts.setdefault(demand, len(self._amounts)))

    def end(self, job: int, at: float, *, lost: float = nan, interrupted: bool = False) -> None:
        """End the run of a job, if the job runs.

        lost: the seconds of the run that an eviction or interruption wastes; NaN if the run ends otherwise.
        interrupted: whether the run ends because the job loses nodes.
        """
        self._late.discard(job)
        if (run := self._open.pop(job, None)) is not None:
            self.ends[run] = at
            self.lost[run] = lost
            self.interrupted[run] = interrupted
