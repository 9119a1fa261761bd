"""Count each ended pod exactly once, even if the controller crashes.

A pod is created with a finalizer, so it cannot vanish uncounted. It is counted in three steps:

1. Its UID is added to `uncountedTerminatedPods` and that status is stored. A succeeded pod of an Indexed Job is added
to `completedIndexes` instead.
2. Its finalizer is removed.
3. A later status drops the UID and raises the counter.

At any moment the true count is the counter, plus the listed UIDs, plus the ended pods that still have the finalizer and
are not listed.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec
from msgspec import Struct, field

from muster.api.batch import JobStatus, UncountedTerminatedPods
from muster.api.core import Pod
from muster.api.values.indexes import Indexes
from muster.jobs.interruption import SUSPENDED, interruption_of
from muster.jobs.job.backoff import finish_time
from muster.jobs.job.census import Census, Member, failures_of_index
from muster.jobs.job.pod_failure_policy import FAIL_INDEX, judge
from muster.jobs.job.terms import JobTerms

# The maximum number of pods that one decision counts (upstream's number), to keep the status small and one pass short.
MAX_UNCOUNTED = 500


class EndedPods(Struct, frozen=True):
    """The number of ended pods of a Job, including pods that the stored status does not count yet.

    succeeded: how many pods succeeded; for an Indexed Job, how many indexes succeeded.
    failed: how many pods failed, without failures that the podFailurePolicy ignores.
    completed: the indexes in range that have succeeded; empty for a NonIndexed Job.
    failed_indexes: the indexes in range that have failed permanently or were cancelled; None without a back-off limit
    per index.
    new_succeeded, new_failed: the ended pods that the stored status does not count yet. Ignored failures are included.
    awaiting: the failed pod of each index that is kept until its replacement has copied its count of failures.
    """

    succeeded: int
    failed: int
    completed: Indexes
    failed_indexes: Indexes | None
    new_succeeded: tuple[Pod, ...]
    new_failed: tuple[Pod, ...]
    awaiting: Mapping[int, Member]


class CountChanges(Struct, frozen=True):
    """The changes that one decision makes to the counts in a Job's status.

    release: the pods whose finalizer is removed after the status is stored.
    more: whether more pods are left to release than one decision handles.
    judged: the actions of the podFailurePolicy on the pods of this decision.
    interrupted: the pods that the platform ended, which do not count as failures. Pods that a suspension ended are left
    out, because the suspension is recorded as one interruption.
    """

    status: JobStatus
    release: tuple[Pod, ...]
    more: bool
    judged: tuple[str, ...]
    interrupted: tuple[Pod, ...] = ()


def settle_counted(status: JobStatus, census: Census) -> JobStatus:
    """Return the status with each listed UID whose pod has lost its finalizer moved from the list to the counter."""
    uncounted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    tracked = {member.uid for member in census.tracked}
    succeeded = tuple(uid for uid in uncounted.succeeded if uid in tracked)
    failed = tuple(uid for uid in uncounted.failed if uid in tracked)
    return msgspec.structs.replace(
        status,
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=succeeded, failed=failed),
        succeeded=status.succeeded + len(uncounted.succeeded) - len(succeeded),
        failed=status.failed + len(uncounted.failed) - len(failed),
    )


def count_ended_pods(status: JobStatus, terms: JobTerms, census: Census) -> EndedPods:
    """Return how many pods of a Job have ended. `status` must be the result of `settle_counted`."""
    uncounted = _read_uncounted(status)
    counted_uids = {*uncounted.succeeded, *uncounted.failed}
    ours = [member for member in census.tracked if terms.has_index(member.index)]
    new = [member for member in ours if member.uid not in counted_uids]
    succeeded = tuple(member.pod for member in new if member.succeeded)
    failed = tuple(member.pod for member in new if member.counts_failed(terms.replace_only_failed))
    counted = sum(judge(terms.pod_failure_policy, pod).counts for pod in failed)
    completed = _collect_completed(status, terms, ours)
    failed_indexes = _collect_failed_indexes(status, terms, ours, completed)
    return EndedPods(
        succeeded=len(completed) if terms.indexed else status.succeeded + len(uncounted.succeeded) + len(succeeded),
        failed=status.failed + len(uncounted.failed) + counted,
        completed=completed,
        failed_indexes=failed_indexes,
        new_succeeded=succeeded,
        new_failed=failed,
        awaiting=_find_awaiting(terms, census, ours, completed, failed_indexes) if failed_indexes is not None else {},
    )


def _read_uncounted(status: JobStatus) -> UncountedTerminatedPods:
    return status.uncounted_terminated_pods or UncountedTerminatedPods()


def _collect_completed(status: JobStatus, terms: JobTerms, ours: list[Member]) -> Indexes:
    if not terms.indexed:
        return Indexes()
    # The index is still completed if it left the range and came back between two decisions.
    stored = Indexes.parse(status.completed_indexes, terms.completions or 0)
    # A pod that was counted as failed stays failed, whatever its phase is now.
    failed = frozenset(_read_uncounted(status).failed)
    ended_indexes = Indexes.parse(status.failed_indexes or "", terms.completions or 0) & terms.cancelled
    return stored | Indexes.of(
        member.index
        for member in ours
        if member.succeeded and member.uid not in failed and member.index not in ended_indexes
    )


def _collect_failed_indexes(
    status: JobStatus, terms: JobTerms, ours: list[Member], completed: Indexes
) -> Indexes | None:
    if terms.backoff_limit_per_index is None:
        return None
    stored = Indexes.parse(status.failed_indexes or "", terms.completions or 0)
    failed = Indexes.of(
        member.index for member in ours if member.index not in completed and _fails_index(terms, member)
    )
    return stored | failed | (terms.cancelled - completed)


def _fails_index(terms: JobTerms, member: Member) -> bool:
    if not member.counts_failed(terms.replace_only_failed):
        return False
    judgement = judge(terms.pod_failure_policy, member.pod)
    if judgement.action == FAIL_INDEX:
        return True
    return judgement.counts and failures_of_index(member.pod)[0] >= (terms.backoff_limit_per_index or 0)


def _find_awaiting(
    terms: JobTerms, census: Census, ours: list[Member], completed: Indexes, failed_indexes: Indexes
) -> dict[int, Member]:
    """Return the failed pod of each index to be retried: the pod with the most failures, or the latest of equals."""
    active = {member.index for member in census.active}
    awaiting: dict[int, Member] = {}
    for member in ours:
        if not member.counts_failed(terms.replace_only_failed) or member.index in active:
            continue
        if member.index in completed or member.index in failed_indexes:
            continue
        other = awaiting.get(member.index)
        if other is None or _make_sort_key(member) >= _make_sort_key(other):
            awaiting[member.index] = member
    return awaiting


def _make_sort_key(member: Member) -> tuple[int, object]:
    return sum(failures_of_index(member.pod)), finish_time(member.pod)


class _Books(Struct):
    """The UIDs of uncounted pods, succeeded and failed, to which `record` adds."""

    succeeded: list[str]
    failed: list[str]
    release: list[Pod] = field(default_factory=list)
    judged: list[str] = field(default_factory=list)
    interrupted: list[Pod] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.release) >= MAX_UNCOUNTED


def record(
    status: JobStatus,
    terms: JobTerms,
    census: Census,
    count: EndedPods,
    *,
    untracked: AbstractSet[str],
    let_all_go: bool,
    count_all_failed: bool,
) -> CountChanges:
    """Record ended pods in the status, and choose the pods whose finalizer may be removed.

    untracked: UIDs of surplus pods, which never count; their finalizer is removed when they are deleted.
    let_all_go: whether the Job ends or is being deleted, so that every pod may lose its finalizer.
    count_all_failed: whether the Job fails, so that pods that have not ended count as failed.
    """
    uncounted = _read_uncounted(status)
    books = _Books(list(uncounted.succeeded), list(uncounted.failed))
    counted_uids = {*books.succeeded, *books.failed}
    awaiting_uids = {member.uid for member in count.awaiting.values()}
    # Pods that the status counts already come first, as only their finalizers are left to remove.
    for member in sorted(census.tracked, key=lambda member: member.uid not in counted_uids):
        failed = member.counts_failed(terms.replace_only_failed)
        if member.uid in untracked or not (
            let_all_go or member.succeeded or (failed and member.uid not in awaiting_uids)
        ):
            continue
        books.release.append(member.pod)
        if member.uid not in counted_uids and terms.has_index(member.index):
            _enter_pod(books, terms, member, failed=failed or count_all_failed)
        if books.is_full:
            break
    status = msgspec.structs.replace(
        status,
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=tuple(books.succeeded), failed=tuple(books.failed)),
        failed_indexes=None if count.failed_indexes is None else str(count.failed_indexes),
    )
    if terms.indexed:
        status = msgspec.structs.replace(status, completed_indexes=str(count.completed), succeeded=len(count.completed))
    return CountChanges(status, tuple(books.release), books.is_full, tuple(books.judged), tuple(books.interrupted))


def _enter_pod(books: _Books, terms: JobTerms, member: Member, *, failed: bool) -> None:
    if member.succeeded:
        if not terms.indexed:
            books.succeeded.append(member.uid)
    elif failed:
        judgement = judge(terms.pod_failure_policy, member.pod)
        if judgement.action:
            books.judged.append(judgement.action)
        interruption = interruption_of(member.pod)
        if judgement.excused and interruption is not None and interruption.reason != SUSPENDED:
            books.interrupted.append(member.pod)
        if judgement.counts:
            books.failed.append(member.uid)
