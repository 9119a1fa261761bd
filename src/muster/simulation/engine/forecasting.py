"""Forecast the starts of jobs as they are submitted, as `muster why` would, so that forecasts can meet the truth.

A forecast plays all that runs and waits, so its cost grows with that. All jobs that come at one moment share a
forecast: they see the same cluster, so each of them would see the same future. Jobs that come later continue it, while
the cluster does what it expects (`KeptForecast`). So that the cost of all forecasts grows with the number of jobs, each
job that waits pays for a few others, and a forecast is made when it is paid for. What is given to begin with pays for
all forecasts of a small scenario.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import inf
from typing import Literal

from msgspec.structs import replace

from muster.queueing.model import FlavorSpec
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.scheduling.cycle import AdmissionSettings
from muster.queueing.scheduling.estimate import RunTime
from muster.queueing.scheduling.runtimes import PastRun, PastRuns
from muster.simulation.engine.job import SimulatedJob
from muster.simulation.engine.keptforecast import KeptForecast

# For how many jobs, running or waiting, is paid at first, and by each job that waits; what a forecast costs beside.
_GIVEN, _PAID, _FIXED = 4_000, 1, 20


class Forecaster:
    """A maker of forecasts of when jobs get quota, from copies of the quota tree and the queues.

    which: the jobs that get forecasts. jobs: the jobs that have not ended, by key.
    """

    def __init__(
        self,
        which: Literal["all", "some", "none"],
        flavors: Mapping[str, FlavorSpec],
        jobs: Mapping[str, SimulatedJob],
    ) -> None:
        self._flavors = flavors
        self._jobs = jobs
        self._past = PastRuns()
        self._learnt = 0  # how many runs
        self._kept: dict[Node, KeptForecast] = {}  # by the root of their tree of quota
        self._fresh: list[SimulatedJob] = []  # that came at this moment
        self._paid = {"all": inf, "some": _GIVEN, "none": -inf}[which]

    def expect(self, job: SimulatedJob) -> None:
        """Include a job in the next forecasts."""
        self._fresh.append(job)

    def learn(self, job: SimulatedJob, seconds: float) -> None:
        """Learn from a job that has ended how long similar jobs run."""
        self._learnt += 1
        self._past.add(job.traits, PastRun(timedelta(seconds=seconds), job.limit))

    def find_run_time(self, job: SimulatedJob) -> RunTime:
        """Return how long a job will run, by its limit and earlier jobs, without its user's expectation."""
        return RunTime(job.limit, self._past.find(job.traits, job.limit))

    def forecast_all(
        self, tree: Tree, queues: Queues, settings: AdmissionSettings, now: datetime
    ) -> Iterator[tuple[SimulatedJob, float]]:
        """Yield each job that came since the last call with the seconds until it is expected to start.

        The seconds are 0 for a job that has started. A job is left out if they are unknown, or if the computation would
        take too long.
        """
        fresh, self._fresh = self._fresh, []
        waiting: dict[Node, list[SimulatedJob]] = {}  # by the root of their tree of quota
        for job in fresh:
            node = tree.queues.get(job.workload.queue)
            if job.started is not None:
                yield job, 0.0
            elif node is not None and job.workload.key in queues:
                waiting.setdefault(node.root, []).append(job)
        for root, jobs in waiting.items():
            yield from self._forecast(tree, root, queues, settings, jobs, now)

    def _forecast(
        self,
        tree: Tree,
        root: Node,
        queues: Queues,
        settings: AdmissionSettings,
        jobs: Sequence[SimulatedJob],
        now: datetime,
    ) -> Iterator[tuple[SimulatedJob, float]]:
        """Yield jobs that wait with the seconds until they get quota.

        Leave out jobs for which that is unknown, and all of them if the computation would take too long.
        root: the tree of quota in which they wait.
        """
        names = [node.name for node in root.queues()]
        self._paid += _PAID * len(jobs)
        cost = sum(len(node.workloads) for node in root.queues()) + sum(map(queues.count_waiting, names)) + _FIXED
        if cost > self._paid:
            return
        self._paid -= cost
        kept = self._kept.get(root)
        if kept is None or not kept.catch_up(queues, settings, now, self._learnt):
            runs = _RunTimes(self, self._jobs)
            kept = self._kept[root] = KeptForecast(tree, root, queues, self._flavors, runs, settings, now, self._learnt)
        starts = kept.estimate([job.workload.key for job in jobs])
        for job in jobs:
            if (at := starts[job.workload.key].at) is not None:
                yield job, (at - now).total_seconds()


class _RunTimes(Mapping[str, RunTime]):
    """The run times that jobs are expected to have, each computed when a forecast starts its job."""

    def __init__(self, forecaster: Forecaster, jobs: Mapping[str, SimulatedJob]) -> None:
        self._forecaster = forecaster
        self._jobs = jobs

    def __getitem__(self, key: str) -> RunTime:
        job = self._jobs[key]
        expected = None if job.end is None or job.end.is_enforced else timedelta(seconds=job.end.at)
        return replace(self._forecaster.find_run_time(job), expected=expected)

    def __iter__(self) -> Iterator[str]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)
