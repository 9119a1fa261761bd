"""Decide when a failed pod may be replaced.

The delay is 10 s after the first failure, and doubles with each further failure, up to 10 min.

Without a limit per index, all failures of the Job since its last success count (`Backoff`, kept in memory between
decisions and rebuilt from the remaining pods after a restart). With a limit, each index counts its own failures.
Annotations copy that count from a failed pod to its replacement, so only deleting the pod loses it.
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

    failures: the number of failures.
    last_failure: the time of the last failure; None if there is none.
    """

    failures: int = 0
    last_failure: datetime | None = None

    def after(self, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> "Backoff":
        """Return the back-off after these further pods have ended.

        A success resets the count: failures that are not later than the last success no longer count.
        """
        successes = [finish_time(pod) for pod in succeeded]
        failures = [finish_time(pod) for pod in failed]
        if not successes:
            if not failures:
                return self
            return Backoff(self.failures + len(failures), max(failures))
        later = [moment for moment in failures if moment > max(successes)]
        return Backoff(len(later), max(later, default=None))

    def until(self) -> datetime | None:
        """Return the time from which pods may be created; None if they may be created now."""
        return None if self.last_failure is None else self.last_failure + compute_delay(self.failures)


def compute_delay(failures: int) -> timedelta:
    """Return how long to wait before the next pod, from the last of `failures` failures."""
    if failures <= 0:
        return timedelta(0)
    doublings = min(failures - 1, 6)  # 10 s * 2^6 is past the longest delay
    return min(FIRST_DELAY * (1 << doublings), LONGEST_DELAY)


def index_until(last_failed: Pod) -> datetime:
    """Return the time from which an index may have a new pod, after its last pod failed."""
    return finish_time(last_failed) + compute_delay(sum(failures_of_index(last_failed)) + 1)


def finish_time(pod: Pod) -> datetime:
    """Return when a pod ended, from the first of these times that is known.

    The end of its last container, the end of its readiness, its deletion request, its creation.
    """
    return (
        _find_containers_end(pod)
        or _find_readiness_end(pod)
        or _find_deletion_request(pod)
        or pod.metadata.creation_timestamp
        or _EPOCH
    )


def _find_containers_end(pod: Pod) -> datetime | None:
    latest: datetime | None = None
    for status in pod.status.container_statuses:
        terminated = status.state.terminated
        if terminated is None or terminated.finished_at is None:
            return None
        latest = terminated.finished_at if latest is None else max(latest, terminated.finished_at)
    return latest


def _find_readiness_end(pod: Pod) -> datetime | None:
    ready = find_condition(pod, "Ready")
    return ready.last_transition_time if ready and ready.status == "False" else None


def _find_deletion_request(pod: Pod) -> datetime | None:
    moment = pod.metadata.deletion_timestamp
    return moment and moment - timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
