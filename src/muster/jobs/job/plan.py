"""The work that one decision about a Job requests from the shell, and the shell's report on it.

The order matters. First, pods are created and deleted; then the status is stored. Finalizers are removed only after the
status was stored, because the status must count a pod before its finalizer is removed. A crash between any two of these
writes neither loses a pod nor counts it twice.
"""

from datetime import datetime

from msgspec import Struct

from muster.api.batch import JobStatus
from muster.api.core import Pod
from muster.api.notes import Note
from muster.jobs.job.backoff import Backoff


class Creation(Struct, frozen=True):
    """A pod to create.

    index: the pod's completion index; None in a NonIndexed Job.
    failures, ignored_failures: how many earlier pods of the index failed; None and 0 without a back-off limit per
    index.
    interruptions: how many earlier pods of the index were interrupted; 0 without a back-off limit per index.
    """

    index: int | None = None
    failures: int | None = None
    ignored_failures: int = 0
    interruptions: int = 0


class Deletion(Struct, frozen=True):
    """A pod to delete.

    untrack: whether to remove the tracking finalizer first, so that the pod never counts (for surplus pods). Otherwise
    the finalizer is removed after the status counts the pod.
    suspended: whether to mark the pod first as one that ran when its Job was suspended.
    """

    pod: Pod
    untrack: bool
    suspended: bool = False


class Outcome(Struct, frozen=True):
    """The part of a plan's work on pods that succeeded.

    created: how many pods were created.
    undeleted: the UIDs of pods whose deletion failed. A pod that was not found counts as deleted.
    """

    created: int
    undeleted: frozenset[str] = frozenset()


class JobPlan(Struct, frozen=True):
    """The work to do for one Job now.

    create, delete: pods, in order. A plan never has both.
    status: the status to store if it differs from the stored one.
    release: pods whose finalizer is removed after `status` is stored.
    track: pods to which the finalizer is added again, so that they count.
    notes: events to record after `status` is stored.
    wake_at: when to decide again even if nothing changes; None if that is not needed.
    backoff: the back-off to pass to the next decision after `status` is stored.
    more: whether there is more work than one plan may hold. If so, decide again as soon as this plan is done.
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
