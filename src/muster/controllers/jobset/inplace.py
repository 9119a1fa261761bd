"""Count how often the pods of JobSets were restarted in place."""

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct, field

from muster.api.batch import Job
from muster.api.core import POD, Pod
from muster.api.jobset import JobSet, names
from muster.api.pods import job_reference
from muster.jobs.jobset.inplace import PodAttempt, RestartCounts, attempt_of
from muster.runtime.control.manager import Manager

_NONE = PodAttempt()
_JobSetKey = tuple[str, str]  # namespace and UID of a JobSet


class _Pods(Struct):
    """The pods of one Job, counted by attempt and by the restart count of their most restarted container."""

    attempts: Counter[int] = field(default_factory=Counter)
    restarts: Counter[int] = field(default_factory=Counter)


class _PodRestarts(Struct, frozen=True):
    """The restarts that a pod reports.

    job: the UID of the pod's Job.
    """

    jobset: _JobSetKey
    job: str
    attempt: PodAttempt


class InPlaceRestarts:
    """The counter of restarts in place, a part of the JobSet controller.

    wake: queues a JobSet after a number of seconds.
    """

    def __init__(self, manager: Manager, wake: Callable[[str, float], None]) -> None:
        self._wake = wake
        # By JobSet, then by the UID of its Job. Only pods that were restarted, or that have agents, are counted.
        self._jobsets: dict[_JobSetKey, dict[str, _Pods]] = {}
        manager.informer(POD).on_change(self._on_pod_changed)

    def count_restarts(self, jobset: JobSet, jobs: Iterable[Job]) -> RestartCounts:
        """Return how many pods of these Jobs of a JobSet are in each attempt, and their highest restart count."""
        by_job = self._jobsets.get((jobset.metadata.namespace, jobset.metadata.uid), {})
        counted = [by_job[job.metadata.uid] for job in jobs if job.metadata.uid in by_job] if by_job else []
        attempts = Counter[int]()
        for pods in counted:
            attempts.update(pods.attempts)
        return RestartCounts(attempts, max((most for pods in counted for most in pods.restarts), default=0))

    def _on_pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        before, after = _read_restarts(old), _read_restarts(new)
        if before == after:
            return
        for restarts, by in ((before, -1), (after, 1)):
            if restarts is not None:
                self._count(restarts, by)
        pod = new if new is not None else old
        assert pod is not None
        self._wake(f"{pod.metadata.namespace}/{pod.metadata.labels.get(names.JOBSET_NAME, '')}", 0.0)

    def _count(self, restarts: _PodRestarts, by: int) -> None:
        jobs = self._jobsets.setdefault(restarts.jobset, {})
        pods = jobs.setdefault(restarts.job, _Pods())
        if restarts.attempt.attempt is not None:
            _add(pods.attempts, restarts.attempt.attempt, by)
        if restarts.attempt.restarts:
            _add(pods.restarts, restarts.attempt.restarts, by)
        if not pods.attempts and not pods.restarts:
            del jobs[restarts.job]
        if not jobs:
            del self._jobsets[restarts.jobset]


def _read_restarts(pod: Pod | None) -> _PodRestarts | None:
    """Return the attempt that a pod's agent reports, and the highest restart count of the pod's containers.

    The result is None if the pod belongs to no JobSet, or has neither.
    """
    uid = pod.metadata.labels.get(names.JOBSET_UID) if pod is not None else None
    job = job_reference(pod) if pod is not None else None
    if pod is None or uid is None or job is None:
        return None
    attempt = attempt_of(pod)
    return _PodRestarts((pod.metadata.namespace, uid), job.uid, attempt) if attempt != _NONE else None


def _add(counts: Counter[int], key: int, by: int) -> None:
    counts[key] += by
    if not counts[key]:
        del counts[key]
