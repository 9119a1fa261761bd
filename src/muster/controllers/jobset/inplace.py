"""Keeps count of how often the pods of JobSets were started again in place."""

from collections import Counter
from collections.abc import Callable

from msgspec import Struct, field

from muster.api.core import POD, Pod
from muster.api.jobset import names
from muster.jobs.jobset.inplace import InPlaceStanding, PodAttempt, attempt_of
from muster.runtime.manager import Manager

_NONE = PodAttempt()


class _Pods(Struct):
    """Those of one JobSet, counted: by attempt, and by the restarts of the container that was restarted most."""

    attempts: Counter[int] = field(default_factory=Counter)
    restarts: Counter[int] = field(default_factory=Counter)


class InPlaceRestarts:
    """Part of the JobSet controller. wake: look at a JobSet in so many seconds."""

    def __init__(self, manager: Manager, wake: Callable[[str, float], None]) -> None:
        self._wake = wake
        self._jobsets: dict[str, _Pods] = {}  # by UID; only with pods that were started again, or that have agents
        manager.informer(POD).on_change(self._pod_changed)

    def standing(self, uid: str) -> InPlaceStanding:
        """What is known of the pods of a JobSet."""
        pods = self._jobsets.get(uid)
        return (
            InPlaceStanding({}) if pods is None else InPlaceStanding(dict(pods.attempts), max(pods.restarts, default=0))
        )

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        before, after = _said(old), _said(new)
        if before == after:
            return
        for said, by in ((before, -1), (after, 1)):
            if said is not None:
                self._count(*said, by)
        pod = new if new is not None else old
        assert pod is not None
        self._wake(f"{pod.metadata.namespace}/{pod.metadata.labels.get(names.JOBSET_NAME, '')}", 0.0)

    def _count(self, uid: str, said: PodAttempt, by: int) -> None:
        pods = self._jobsets.setdefault(uid, _Pods())
        if said.attempt is not None:
            _add(pods.attempts, said.attempt, by)
        if said.restarts:
            _add(pods.restarts, said.restarts, by)
        if not pods.attempts and not pods.restarts:
            del self._jobsets[uid]


def _said(pod: Pod | None) -> tuple[str, PodAttempt] | None:
    """What a pod says, and of which JobSet; None if there is nothing to count."""
    uid = pod.metadata.labels.get(names.JOBSET_UID) if pod is not None else None
    if pod is None or uid is None:
        return None
    said = attempt_of(pod)
    return (uid, said) if said != _NONE else None


def _add(counts: Counter[int], what: int, by: int) -> None:
    counts[what] += by
    if not counts[what]:
        del counts[what]
