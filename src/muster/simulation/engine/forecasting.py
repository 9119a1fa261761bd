"""Forecast the starts of jobs as they are submitted, as `muster why` would, so that forecasts can meet the truth.

A forecast plays all that runs and waits, so its cost grows with that. So that the cost of all forecasts grows with the
number of jobs, each job that waits pays for a few others, and a forecast is made when it is paid for. What is given to
begin with pays for all forecasts of a small scenario.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from math import inf
from typing import Literal

from msgspec.structs import replace

from muster.queueing.model import CohortSpec, FlavorSpec
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.scheduling.cycle import AdmissionSettings
from muster.queueing.scheduling.estimate import RunTime, estimate
from muster.queueing.scheduling.runtimes import PastRun, PastRuns
from muster.simulation.engine.job import SimulatedJob

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
        self._fresh: list[SimulatedJob] = []  # that came at this moment
        self._paid = {"all": inf, "some": _GIVEN, "none": -inf}[which]

    def expect(self, job: SimulatedJob) -> None:
        """Include a job in the next forecasts."""
        self._fresh.append(job)

    def learn(self, job: SimulatedJob, seconds: float) -> None:
        """Learn from a job that has ended how long similar jobs run."""
        self._past.add(job.traits, PastRun(timedelta(seconds=seconds), job.limit))

    def find_run_time(self, job: SimulatedJob) -> RunTime:
        """Return how long a job will run, by its limit and earlier jobs, without its user's expectation."""
        return RunTime(job.limit, self._past.find(job.traits, job.limit))

    def forecast_all(
        self, tree: Tree, queues: Queues, settings: AdmissionSettings, now: datetime
    ) -> Iterator[tuple[SimulatedJob, float]]:
        """Yield the jobs that came at this moment with the seconds until they are expected to start."""
        fresh, self._fresh = self._fresh, []
        for job in fresh:
            wait: float | None = None
            if job.started is not None:
                wait = 0.0
            elif job.workload.key in queues:
                wait = self._forecast(tree, queues, settings, job.workload.key, job.workload.queue, now)
            if wait is not None:
                yield job, wait

    def _run_time(self, key: str) -> RunTime:
        """Return what is known about the run time of a job before its end."""
        job = self._jobs[key]
        expected = None if job.end is None or job.end.is_enforced else timedelta(seconds=job.end.at)
        return replace(self.find_run_time(job), expected=expected)

    def _forecast(
        self, tree: Tree, queues: Queues, settings: AdmissionSettings, key: str, queue: str, now: datetime
    ) -> float | None:
        """Return the seconds until a waiting job gets quota.

        Return None if that is unknown, or if its computation would take too long.
        """
        if queue not in tree.queues:
            return None
        root = tree.queues[queue].root
        names = [node.name for node in root.queues()]
        keys = [key for node in root.queues() for key in node.workloads]
        keys += [key for name in names for key in queues.list_waiting(name)]
        self._paid += _PAID
        cost = len(keys) + _FIXED
        if cost > self._paid:
            return None
        self._paid -= cost
        runs = {key: self._run_time(key) for key in keys}
        start = estimate(_copy_quota(root), queues.copy(names), self._flavors, key, runs, now, settings).at
        return None if start is None else (start - now).total_seconds()


def _copy_quota(root: Node) -> Tree:
    """Return the quota of a root Cohort, or of a ClusterQueue without one, and what is held of it."""
    copy = Tree()
    cohorts = [] if root.is_queue else [root]
    while cohorts:
        node = cohorts.pop()
        if isinstance(node.spec, CohortSpec):
            copy.set_cohort(node.spec)
        cohorts.extend(node.cohorts())
    for node in root.queues():
        copy.set_queue(node.policy)
        for workload in node.workloads.values():
            copy.hold(workload)
    return copy
