"""Define the jobs of a simulation that have not ended."""

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
    """A job that has not ended.

    end: when it ends at the latest, from its start.
    work: how many seconds are still to be done. checkpoints: how it keeps what it has done.
    started: since when it runs; None while it waits.
    starts: the number of its starts and breaks; an event with an older number is ignored.
    assignment: the flavors and counts that its queue gave it.
    lacking: the pods without a node, while other pods keep theirs.
    broken_since: since when it lacks them, as far as the scheduler knows.
    counts_since: since when its time limit counts; None until it starts with its present quota.
    given_up: its pods were not ready in time too often, so that it is never queued again.
    bounds: the sizes between which it may be resized; None if it is not elastic.
    size, base: the present and the submitted number of pods of an elastic job.
    since: since when it runs with its present size.
    done: the work of this run before that, in seconds with its first size.
    flavors: the flavors of its podsets, if it got them before the simulation began.
    over_limit: whether its planned end is that of its time limit, before its work is done.
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
        """The name of the job in records. Jobs of several sources may share a name, but each job has its own number."""
        return Subject(f"{self.workload.namespace}/{self.submission.name}", str(self.number))

    @property
    def limit(self) -> timedelta | None:
        """The time after which the job is ended; None if it has no limit."""
        return None if self.end is None or not self.end.is_enforced else timedelta(seconds=self.end.at)

    @property
    def traits(self) -> Traits:
        """The traits by which other jobs count as similar to this one."""
        one, pods = self.submission, sum(podset.count for podset in self.workload.podsets)
        return Traits(self.workload.local_queue, one.user, one.series, pods)

    @property
    def speed(self) -> float:
        """The seconds of work that the job does in a second: its present pods divided by the pods it came with."""
        return self.size / self.base

    def measure_work(self, now: float) -> float:
        """Return how many seconds of work the job did in this run, at its first size; 0 if it does not run."""
        if self.started is None:
            return 0.0
        return self.done + max(0.0, now - max(self.since, self.started + self.submission.startup)) * self.speed

    def sum_demand(self) -> Amounts:
        """Return what the job needs of the cluster: its quota, or the requests of its pods if it has no quota."""
        workload, total = self.workload, Counter[str]()
        for (_, resource), amount in (workload.usage or {}).items():
            total[resource] += amount
        for podset in workload.podsets if workload.usage is None else ():
            for resource, amount in (podset.asks or podset.requests).items():
                total[resource] += amount * podset.count
        return tuple(sorted(total.items()))
