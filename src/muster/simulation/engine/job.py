"""Define a simulated job that has not ended: its progress, its size and its remaining work."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from muster.api.ours.decisions import Subject
from muster.api.ours.elastic import Bounds
from muster.gang.order.ends import EndTime
from muster.gang.shapes import Shape
from muster.queueing.model import Assignment, WorkloadInfo
from muster.queueing.scheduling.runtimes import Traits
from muster.simulation.engine.checkpoints import Checkpoints
from muster.simulation.engine.templates import KnownTemplate
from muster.simulation.outcome.runs import Amounts
from muster.simulation.scenario.arrivals import Submission


class SimulatedJob(Struct):
    """A job of a simulation that has not ended. Times are seconds from the start of the simulation.

    end: when the job ends by its limit or its user's expectation, in seconds from its start; None if unknown.
    work: the remaining seconds of work.
    checkpoints: how the job writes checkpoints; None if it writes none.
    started: the time since when it runs; None while it waits.
    starts: the number of its starts and breaks; an event with an older number is ignored.
    assignment: the flavors and counts that its queue assigned.
    lacking: the pods without a node, while other pods keep their nodes.
    broken_since: the time since which it lacks these pods.
    counts_since: the time since when its time limit counts; None until it starts with its current quota.
    given_up: whether its pods were late too often, so that it is never queued again.
    bounds: the sizes between which it may be resized; None if it is not elastic.
    size, base: the current and the submitted number of pods of an elastic job.
    since: the time since when it runs with its current size.
    done: the work of this run before `since`, in seconds at its submitted size.
    flavors: the flavors of its podsets, if they were assigned before the simulation started.
    over_limit: whether its planned end is its time limit, before its work is done.
    """

    number: int
    submission: Submission
    known: KnownTemplate
    workload: WorkloadInfo
    end: EndTime | None
    work: float
    checkpoints: Checkpoints | None
    started: float | None = None
    starts: int = 0
    assignment: Assignment | None = None
    lacking: Counter[Shape] | None = None
    broken_since: float | None = None
    counts_since: float | None = None
    given_up: bool = False
    flavors: Sequence[tuple[str, ...]] = ()
    bounds: Bounds | None = None
    size: int = 1
    base: int = 1
    since: float = 0.0
    done: float = 0.0
    over_limit: bool = False

    @property
    def subject(self) -> Subject:
        """The identity of the job in records.

        Jobs of several sources may share a name, but each job has its own number.
        """
        return Subject(f"{self.workload.namespace}/{self.submission.name}", str(self.number))

    @property
    def limit(self) -> timedelta | None:
        """The time limit of the job; None if it has none."""
        return None if self.end is None or not self.end.is_enforced else timedelta(seconds=self.end.at)

    @property
    def traits(self) -> Traits:
        """The properties by which other jobs are similar to this job."""
        one, pods = self.submission, sum(podset.count for podset in self.workload.podsets)
        return Traits(self.workload.local_queue, one.user, one.series, pods)

    @property
    def speed(self) -> float:
        """The seconds of work that the job does per second: its current size divided by its submitted size."""
        return self.size / self.base

    def measure_work(self, now: float) -> float:
        """Return the seconds of work that the job has done in this run, at its submitted size; 0 if it does not run."""
        if self.started is None:
            return 0.0
        return self.done + max(0.0, now - max(self.since, self.started + self.submission.startup)) * self.speed

    def sum_demand(self) -> Amounts:
        """Return the amounts that the job needs: its quota, or the requests of its pods if it has no quota."""
        workload, total = self.workload, Counter[str]()
        for (_, resource), amount in (workload.usage or {}).items():
            total[resource] += amount
        for podset in workload.podsets if workload.usage is None else ():
            for resource, amount in (podset.asks or podset.requests).items():
                total[resource] += amount * podset.count
        return tuple(sorted(total.items()))
