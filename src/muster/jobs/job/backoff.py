"""When a failed pod may be replaced: 10 s after the first failure, twice as long after each further one, up to 10 min.

Without a limit per index the failures of the whole Job since its last success count (`Backoff`, remembered between
decisions and read anew from the pods that are still there after a restart). With one, each index counts its own: the
count travels in annotations from a failed pod to its replacement, so it survives anything but deleting the pod.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from muster.api.core import Pod
from muster.api.pods import find_condition
from muster.jobs.job.census import failures_of_index

FIRST_DELAY = timedelta(seconds=10)
LONGEST_DELAY = timedelta(minutes=10)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Backoff(Struct, frozen=True):
    """The failures of a Job since its last success.

    failures: how many.
    last_failure: when the last of them was; None if there is none.
    """

    failures: int = 0
    last_failure: datetime | None = None

    def after(self, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> "Backoff":
        """The record after some more pods ended. A success forgets all failures that were not after it."""
        successes = [finish_time(pod) for pod in succeeded]
        failures = [finish_time(pod) for pod in failed]
        if not successes:
            if not failures:
                return self
            return Backoff(self.failures + len(failures), max(failures))
        later = [moment for moment in failures if moment > max(successes)]
        return Backoff(len(later), max(later, default=None))

    def until(self) -> datetime | None:
        """From when on pods may be created; None for at once."""
        return None if self.last_failure is None else self.last_failure + delay(self.failures)


def delay(failures: int) -> timedelta:
    """How long to wait after the last of so many failures."""
    if failures <= 0:
        return timedelta(0)
    doublings = min(failures - 1, 6)  # 10 s * 2^6 is past the longest delay
    return min(FIRST_DELAY * (1 << doublings), LONGEST_DELAY)


def index_until(last_failed: Pod) -> datetime:
    """From when on the index of a failed pod may have a new one."""
    return finish_time(last_failed) + delay(sum(failures_of_index(last_failed)) + 1)


def finish_time(pod: Pod) -> datetime:
    """When a pod ended, by the best evidence there is.

    The end of its last container; when it stopped being ready; when its deletion was asked for; its creation.
    """
    return (
        _containers_finished(pod)
        or _not_ready_since(pod)
        or _deletion_asked(pod)
        or pod.metadata.creation_timestamp
        or _EPOCH
    )


def _containers_finished(pod: Pod) -> datetime | None:
    latest: datetime | None = None
    for status in pod.status.container_statuses:
        terminated = status.state.terminated
        if terminated is None or terminated.finished_at is None:
            return None
        latest = terminated.finished_at if latest is None else max(latest, terminated.finished_at)
    return latest


def _not_ready_since(pod: Pod) -> datetime | None:
    ready = find_condition(pod, "Ready")
    return ready.last_transition_time if ready and ready.status == "False" else None


def _deletion_asked(pod: Pod) -> datetime | None:
    moment = pod.metadata.deletion_timestamp
    return moment and moment - timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
