"""Forecast the starts of jobs when they are submitted, as `muster why` would, to compare them with the real starts.

A forecast simulates all running and waiting jobs, so its cost grows with their number. All jobs that arrive at the same
time share a forecast, because they would get the same one. Later jobs continue it as long as the cluster behaves as
expected (`KeptForecast`). To make the cost of all forecasts proportional to the number of jobs, there is a budget: each
waiting job adds to it, and a forecast is made only if the budget suffices. The initial budget suffices for all
forecasts of a small scenario.
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

# The initial budget in jobs, running or waiting, the budget that each waiting job adds, and the fixed cost of a
# forecast.
_GIVEN, _PAID, _FIXED = 4_000, 1, 20


class Forecaster:
    """A maker of forecasts of when jobs get quota, from copies of the quota tree and the queues.

    which: the jobs that get forecasts.
    jobs: the jobs that have not ended, by key.
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
        self._learnt = 0  # the number of runs learnt from
        self._kept: dict[Node, KeptForecast] = {}  # by the root of the quota tree
        self._fresh: list[SimulatedJob] = []  # jobs that arrived at this time
        self._paid = {"all": inf, "some": _GIVEN, "none": -inf}[which]

    def expect(self, job: SimulatedJob) -> None:
        """Include a new job in the next forecasts."""
        self._fresh.append(job)

    def learn(self, job: SimulatedJob, seconds: float) -> None:
        """Learn the run time of a job that has ended, for forecasts of similar jobs."""
        self._learnt += 1
        self._past.add(job.traits, PastRun(timedelta(seconds=seconds), job.limit))

    def find_run_time(self, job: SimulatedJob) -> RunTime:
        """Return the expected run time of a job, from its limit and earlier jobs, without its user's expectation."""
        return RunTime(job.limit, self._past.find(job.traits, job.limit))

    def forecast_all(
        self, tree: Tree, queues: Queues, settings: AdmissionSettings, now: datetime
    ) -> Iterator[tuple[SimulatedJob, float]]:
        """Yield each job that arrived since the last call, with the expected seconds until it starts.

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
            yield from self._forecast_starts(tree, root, queues, settings, jobs, now)

    def _forecast_starts(
        self,
        tree: Tree,
        root: Node,
        queues: Queues,
        settings: AdmissionSettings,
        jobs: Sequence[SimulatedJob],
        now: datetime,
    ) -> Iterator[tuple[SimulatedJob, float]]:
        """Yield waiting jobs with the expected seconds until they get quota.

        root: the root of the quota tree in which they wait.

        Jobs for which that is unknown are left out, and all jobs if the computation would take too long.
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
    """The expected run times of jobs, each computed when a forecast starts its job."""

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
