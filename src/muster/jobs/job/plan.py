"""What one decision about a Job asks of the shell, and what the shell reports back.

The order is part of the meaning. First pods are created and deleted; then the status is stored; then, and only if it
was stored, finalizers are removed: the status must hold a pod before the pod is let go. A crash between any two of
these writes neither loses nor counts twice.
"""

from datetime import datetime

from msgspec import Struct

from muster.api.batch import JobStatus
from muster.api.core import Pod
from muster.api.notes import Note
from muster.jobs.job.backoff import Backoff


class Creation(Struct, frozen=True):
    """A pod to create.

    index: its completion index; None in a NonIndexed Job.
    failures, ignored_failures: of the earlier pods of its index, with a back-off limit per index; else None and 0.
    """

    index: int | None = None
    failures: int | None = None
    ignored_failures: int = 0


class Deletion(Struct, frozen=True):
    """A pod to delete.

    untrack: remove the finalizer first, so that the pod never counts (surplus pods). Otherwise it goes when the
        status holds the pod.
    """

    pod: Pod
    untrack: bool


class Outcome(Struct, frozen=True):
    """How much of a plan's work on pods came true.

    created: how many pods were created.
    undeleted: UIDs of pods whose deletion failed (not found is not a failure).
    """

    created: int
    undeleted: frozenset[str] = frozenset()


class JobPlan(Struct, frozen=True):
    """What to do about one Job now.

    create, delete: pods, in order; never both.
    status: to store if it differs from what is stored.
    release: pods whose finalizer goes once `status` is stored.
    track: pods that lack the finalizer and should have it: their removal was begun, and is no longer wanted.
    notes: events, once `status` is stored.
    wake_at: when to decide again even if nothing changes.
    backoff: to be given to the next decision once `status` is stored.
    more: there was more to do than one plan may hold; decide again as soon as this one is done.
    judged: for metrics, the actions of the podFailurePolicy on the pods counted here.
    """

    status: JobStatus
    create: tuple[Creation, ...] = ()
    delete: tuple[Deletion, ...] = ()
    release: tuple[Pod, ...] = ()
    track: tuple[Pod, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: datetime | None = None
    backoff: Backoff | None = None
    more: bool = False
    judged: tuple[str, ...] = ()

    @property
    def all_done(self) -> Outcome:
        """The outcome if every creation and deletion succeeds."""
        return Outcome(len(self.create))
