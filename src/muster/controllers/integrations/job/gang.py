"""The gang of a Job: all pods that it wants to run side by side. Pure."""

from collections.abc import Iterable

from muster.api.batch import INDEXED, JOB, Job
from muster.api.core import Pod
from muster.api.values.indexes import Indexes
from muster.controllers.gangs import OwnedGangs
from muster.gang.order.ends import End, end_of
from muster.jobs.job.census import completion_index
from muster.jobs.job.sizing import wanted_active
from muster.jobs.job.terms import Terms


class JobGangs(OwnedGangs[Job]):
    """Jobs, by what their status says is done."""

    kind = JOB

    def wanted(self, carrier: Job) -> int:
        """As many as are not done yet, up to its parallelism."""
        done = carrier.status.succeeded + len(failed_indexes(carrier))
        return wanted_active(Terms.of(carrier), active=0, succeeded=done)

    def end(self, carrier: Job, started: float) -> End | None:
        """As its annotation says, and at its deadline."""
        return end_of(carrier.metadata, carrier.spec.active_deadline_seconds, started)

    def members(self, carrier: Job, pods: Iterable[Pod]) -> list[Pod]:
        """Without those of an Indexed Job that it has no place for any more since it was scaled down."""
        if carrier.spec.completion_mode != INDEXED or carrier.spec.completions is None:
            return list(pods)
        size = carrier.spec.completions
        return [pod for pod in pods if completion_index(pod) < size]


def failed_indexes(job: Job) -> Indexes:
    """The indexes that have failed for good."""
    return Indexes.parse(job.status.failed_indexes or "", job.spec.completions or 0)
