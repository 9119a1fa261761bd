"""Count a job's workers by state. Pure."""

from collections.abc import Iterable

from msgspec import Struct

from muster.api.core import Pod
from muster.api.pods import is_finished, is_ready
from muster.insight.record import JobRecord


class WorkerCounts(Struct, frozen=True):
    """The number of a job's workers: wanted, running, ready (ready workers also run) and succeeded."""

    wanted: int
    running: int
    ready: int
    done: int

    @property
    def sentence(self) -> str:
        """The counts as a sentence: `3 of 4 workers run, 2 are ready, 1 is done`."""
        parts = [f"{self.running} of {self.wanted} workers run"]
        if self.ready != self.running:
            parts.append(f"{self.ready} {_conjugate_be(self.ready)} ready")
        if self.done:
            parts.append(f"{self.done} {_conjugate_be(self.done)} done")
        return ", ".join(parts)


def _conjugate_be(number: int) -> str:
    return "is" if number == 1 else "are"


def count_workers(job: JobRecord, pods: Iterable[Pod]) -> WorkerCounts:
    """Return the counts of a job's workers from its pods, or from the status of the cluster that runs it."""
    if (counts := job.remote_counts) is not None:
        return WorkerCounts(job.wanted, max(counts.active, counts.ready), counts.ready, counts.succeeded)
    live = [pod for pod in pods if not is_finished(pod)]
    running = sum(pod.status.phase == "Running" for pod in live)
    return WorkerCounts(job.wanted, running, sum(map(is_ready, live)), job.succeeded)
