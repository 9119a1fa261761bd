"""Define the gang of a Job: all pods that it runs at the same time. Pure."""

from collections.abc import Callable, Collection, Iterable

from muster.api.batch import INDEXED, JOB, Job, comes_in_waves, pods_at_once
from muster.api.core import Pod
from muster.api.values.indexes import Indexes
from muster.controllers.gangs import OwnedGangs, read_recorded_size
from muster.gang.demands import Size
from muster.gang.order.ends import EndTime, end_of
from muster.jobs.job.census import completion_index
from muster.jobs.job.quota import is_gated
from muster.jobs.job.sizing import wanted_active
from muster.jobs.job.terms import JobTerms


class JobGangs(OwnedGangs[Job]):
    """The gangs of Jobs. A Job's status counts its done pods."""

    kind = JOB

    def count_wanted(self, carrier: Job) -> int:
        """Return how many pods of the Job should run now: the pods that are not done, at most its parallelism."""
        return wanted_active(JobTerms.of(carrier), active=0, succeeded=_count_done(carrier))

    def size(self, carrier: Job, bound: Collection[Pod], gated: Collection[Pod] = ()) -> Size:
        """Return the gang's size by the Job's parallelism.

        A Job that grew beyond its quota starts again without the growth. A Job with several waves of pods starts its
        first wave as a whole. It does so again if it lost all pods before one was done.
        """
        done, wanted = _count_done(carrier), self.count_wanted(carrier)
        if comes_in_waves(carrier.spec):
            return Size(wanted, len(bound), in_waves=bool(bound or done))
        recorded = read_recorded_size(carrier.metadata) or 0
        if not bound:
            on_credit = sum(is_gated(pod) and completion_index(pod) >= recorded for pod in gated) if recorded else 0
            return Size(max(0, wanted - on_credit))
        held = max(recorded, self.held(carrier, bound))
        return Size(wanted, len(bound), held, done if self.place(carrier) is not None else 0)

    def place(self, carrier: Job) -> Callable[[Pod], int] | None:
        """Return the function that returns the index of a pod of an Indexed Job; None for any other Job."""
        return completion_index if carrier.spec.completion_mode == INDEXED else None

    def held(self, carrier: Job, pods: Collection[Pod]) -> int:
        """Return the size of the gang to record.

        It is the highest index among the pods plus one; for a Job without indexes, the number of pods.
        """
        if (place := self.place(carrier)) is None:
            return len(pods)
        return max(map(place, pods), default=-1) + 1

    def most(self, carrier: Job) -> int:
        """Return how many pods of the Job run at the same time.

        Members beyond this number count as growth if they come back.
        """
        return pods_at_once(carrier.spec)

    def end(self, carrier: Job, started: float) -> EndTime | None:
        """Return when a Job that starts at `started` ends, by its expected duration or its limits; None without these.

        Both times are in seconds since the epoch.
        """
        return end_of(carrier.metadata, carrier.spec.active_deadline_seconds, started)

    def members(self, carrier: Job, pods: Iterable[Pod]) -> list[Pod]:
        """Return the given pods without pods whose index an Indexed Job no longer has after scaling down."""
        if carrier.spec.completion_mode != INDEXED or carrier.spec.completions is None:
            return list(pods)
        size = carrier.spec.completions
        return [pod for pod in pods if completion_index(pod) < size]


def _count_done(job: Job) -> int:
    return job.status.succeeded + len(failed_indexes(job))


def failed_indexes(job: Job) -> Indexes:
    """Return the indexes that have failed permanently or were cancelled."""
    return Indexes.parse(job.status.failed_indexes or "", job.spec.completions or 0)
