"""Count how often the pods of JobSets were restarted in place."""

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct, field

from muster.api.batch import Job
from muster.api.core import POD, Pod
from muster.api.jobset import JobSet, names
from muster.api.pods import job_reference
from muster.jobs.jobset.inplace import InPlaceStanding, PodAttempt, attempt_of
from muster.runtime.manager import Manager

_NONE = PodAttempt()
_JobSetKey = tuple[str, str]  # namespace and UID


class _Pods(Struct):
    """The pods of one Job, counted by attempt, and by the restarts of their most restarted container."""

    attempts: Counter[int] = field(default_factory=Counter)
    restarts: Counter[int] = field(default_factory=Counter)


class _Said(Struct, frozen=True):
    """The restarts that a pod reports. job: a UID."""

    jobset: _JobSetKey
    job: str
    attempt: PodAttempt


class InPlaceRestarts:
    """A part of the JobSet controller. wake: queues a JobSet after a number of seconds."""

    def __init__(self, manager: Manager, wake: Callable[[str, float], None]) -> None:
        self._wake = wake
        # By JobSet and the UID of its Job; only pods that were restarted, or that have agents.
        self._jobsets: dict[_JobSetKey, dict[str, _Pods]] = {}
        manager.informer(POD).on_change(self._pod_changed)

    def standing(self, jobset: JobSet, jobs: Iterable[Job]) -> InPlaceStanding:
        """Return how many pods of these Jobs of a JobSet are in each attempt, and their highest restart count."""
        said = self._jobsets.get((jobset.metadata.namespace, jobset.metadata.uid), {})
        counted = [said[job.metadata.uid] for job in jobs if job.metadata.uid in said] if said else []
        attempts = Counter[int]()
        for pods in counted:
            attempts.update(pods.attempts)
        return InPlaceStanding(attempts, max((most for pods in counted for most in pods.restarts), default=0))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        before, after = _said(old), _said(new)
        if before == after:
            return
        for said, by in ((before, -1), (after, 1)):
            if said is not None:
                self._count(said, by)
        pod = new if new is not None else old
        assert pod is not None
        self._wake(f"{pod.metadata.namespace}/{pod.metadata.labels.get(names.JOBSET_NAME, '')}", 0.0)

    def _count(self, said: _Said, by: int) -> None:
        jobs = self._jobsets.setdefault(said.jobset, {})
        pods = jobs.setdefault(said.job, _Pods())
        if said.attempt.attempt is not None:
            _add(pods.attempts, said.attempt.attempt, by)
        if said.attempt.restarts:
            _add(pods.restarts, said.attempt.restarts, by)
        if not pods.attempts and not pods.restarts:
            del jobs[said.job]
        if not jobs:
            del self._jobsets[said.jobset]


def _said(pod: Pod | None) -> _Said | None:
    """Return the restarts that a pod reports; None if there is nothing to count."""
    uid = pod.metadata.labels.get(names.JOBSET_UID) if pod is not None else None
    job = job_reference(pod) if pod is not None else None
    if pod is None or uid is None or job is None:
        return None
    attempt = attempt_of(pod)
    return _Said((pod.metadata.namespace, uid), job.uid, attempt) if attempt != _NONE else None


def _add(counts: Counter[int], what: int, by: int) -> None:
    counts[what] += by
    if not counts[what]:
        del counts[what]
