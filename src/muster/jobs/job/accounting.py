"""Counting pods that have ended, once each, whatever crashes.

A pod is created with a finalizer, so it cannot vanish uncounted. It is counted in three steps: its UID goes into
`uncountedTerminatedPods` (a succeeded pod of an Indexed Job goes straight into `completedIndexes`) and that status is
stored; its finalizer is removed; a later status drops the UID and raises the counter. At any moment the truth is
counter + UIDs + pods that still have the finalizer and are in neither.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec
from msgspec import Struct, field

from muster.api.batch import JobStatus, UncountedTerminatedPods
from muster.api.core import Pod
from muster.api.values.indexes import Indexes
from muster.jobs.job.backoff import finish_time
from muster.jobs.job.census import Census, Member, failures_of_index
from muster.jobs.job.pod_failure_policy import FAIL_INDEX, judge
from muster.jobs.job.terms import Terms

# Pods counted by one decision: keeps the status small and one Job's pass short (upstream's number).
MAX_UNCOUNTED = 500


class Tally(Struct, frozen=True):
    """What the counters come to with every pod that has ended.

    succeeded: for an Indexed Job the number of `completed`.
    failed: without those that the podFailurePolicy ignores.
    completed: indexes in range that have succeeded; empty for a NonIndexed Job.
    failed_indexes: indexes in range that have failed for good; None without a back-off limit per index.
    new_succeeded, new_failed: pods that the stored status does not know of yet (the failed with the ignored).
    awaiting: by index, the failed pod that stays until its replacement has taken over its count of failures.
    """

    succeeded: int
    failed: int
    completed: Indexes
    failed_indexes: Indexes | None
    new_succeeded: tuple[Pod, ...]
    new_failed: tuple[Pod, ...]
    awaiting: Mapping[int, Member]


class Entry(Struct, frozen=True):
    """What one decision adds to the books.

    release: pods to let go of once the status is stored.
    more: there are more of them than one decision takes.
    judged: the podFailurePolicy's actions on the pods that were looked at.
    """

    status: JobStatus
    release: tuple[Pod, ...]
    more: bool
    judged: tuple[str, ...]


def settled(status: JobStatus, census: Census) -> JobStatus:
    """The status with the UIDs of pods that lost their finalizer turned into counts."""
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


def tally(status: JobStatus, terms: Terms, census: Census) -> Tally:
    """Count what has ended. `status` is settled."""
    uncounted = _uncounted(status)
    known = {*uncounted.succeeded, *uncounted.failed}
    ours = [member for member in census.tracked if terms.has_index(member.index)]
    new = [member for member in ours if member.uid not in known]
    succeeded = tuple(member.pod for member in new if member.succeeded)
    failed = tuple(member.pod for member in new if member.counts_failed(terms.replace_only_failed))
    counted = sum(judge(terms.pod_failure_policy, pod).counts for pod in failed)
    completed = _completed(status, terms, ours)
    failed_indexes = _failed_indexes(status, terms, ours, completed)
    return Tally(
        succeeded=len(completed) if terms.indexed else status.succeeded + len(uncounted.succeeded) + len(succeeded),
        failed=status.failed + len(uncounted.failed) + counted,
        completed=completed,
        failed_indexes=failed_indexes,
        new_succeeded=succeeded,
        new_failed=failed,
        awaiting=_awaiting(terms, census, ours, completed, failed_indexes) if failed_indexes is not None else {},
    )


def _uncounted(status: JobStatus) -> UncountedTerminatedPods:
    return status.uncounted_terminated_pods or UncountedTerminatedPods()


def _completed(status: JobStatus, terms: Terms, ours: list[Member]) -> Indexes:
    if not terms.indexed:
        return Indexes()
    # Level-triggered: an index that left the range and came back between two looks is still done.
    stored = Indexes.parse(status.completed_indexes, terms.completions or 0)
    failed = frozenset(_uncounted(status).failed)  # a pod that was taken for failed stays so, whatever it says now
    return stored | Indexes.of(member.index for member in ours if member.succeeded and member.uid not in failed)


def _failed_indexes(status: JobStatus, terms: Terms, ours: list[Member], completed: Indexes) -> Indexes | None:
    if terms.backoff_limit_per_index is None:
        return None
    stored = Indexes.parse(status.failed_indexes or "", terms.completions or 0)
    return stored | Indexes.of(
        member.index for member in ours if member.index not in completed and _fails_index(terms, member)
    )


def _fails_index(terms: Terms, member: Member) -> bool:
    if not member.counts_failed(terms.replace_only_failed):
        return False
    judgement = judge(terms.pod_failure_policy, member.pod)
    if judgement.action == FAIL_INDEX:
        return True
    return judgement.counts and failures_of_index(member.pod)[0] >= (terms.backoff_limit_per_index or 0)


def _awaiting(
    terms: Terms, census: Census, ours: list[Member], completed: Indexes, failed_indexes: Indexes
) -> dict[int, Member]:
    """Of each index that will be tried again, the failed pod with the highest count, the last of them."""
    active = {member.index for member in census.active}
    awaiting: dict[int, Member] = {}
    for member in ours:
        if not member.counts_failed(terms.replace_only_failed) or member.index in active:
            continue
        if member.index in completed or member.index in failed_indexes:
            continue
        other = awaiting.get(member.index)
        if other is None or _rank(member) >= _rank(other):
            awaiting[member.index] = member
    return awaiting


def _rank(member: Member) -> tuple[int, object]:
    return sum(failures_of_index(member.pod)), finish_time(member.pod)


class _Books(Struct):
    """The lists that `record` fills."""

    succeeded: list[str]
    failed: list[str]
    release: list[Pod] = field(default_factory=list)
    judged: list[str] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return len(self.release) >= MAX_UNCOUNTED


def record(
    status: JobStatus,
    terms: Terms,
    census: Census,
    count: Tally,
    *,
    untracked: AbstractSet[str],
    let_all_go: bool,
    count_all_failed: bool,
) -> Entry:
    """Put the pods that have ended into the status, and say which of them may go.

    untracked: UIDs of pods that lose their finalizer otherwise (surplus ones, which never count).
    let_all_go: the Job ends or is deleted: no pod is held back for any reason.
    count_all_failed: the Job fails: pods that have not ended count as failed.
    """
    uncounted = _uncounted(status)
    books = _Books(list(uncounted.succeeded), list(uncounted.failed))
    known = {*books.succeeded, *books.failed}
    kept = {member.uid for member in count.awaiting.values()}
    # Those that the status holds already come first: they only wait to be let go.
    for member in sorted(census.tracked, key=lambda member: member.uid not in known):
        failed = member.counts_failed(terms.replace_only_failed)
        if member.uid in untracked or not (let_all_go or member.succeeded or (failed and member.uid not in kept)):
            continue
        books.release.append(member.pod)
        if member.uid not in known and terms.has_index(member.index):
            _enter(books, terms, member, failed=failed or count_all_failed)
        if books.full:
            break
    status = msgspec.structs.replace(
        status,
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=tuple(books.succeeded), failed=tuple(books.failed)),
        failed_indexes=None if count.failed_indexes is None else str(count.failed_indexes),
    )
    if terms.indexed:
        status = msgspec.structs.replace(status, completed_indexes=str(count.completed), succeeded=len(count.completed))
    return Entry(status, tuple(books.release), books.full, tuple(books.judged))


def _enter(books: _Books, terms: Terms, member: Member, *, failed: bool) -> None:
    if member.succeeded:
        if not terms.indexed:
            books.succeeded.append(member.uid)
    elif failed:
        judgement = judge(terms.pod_failure_policy, member.pod)
        if judgement.action:
            books.judged.append(judgement.action)
        if judgement.counts:
            books.failed.append(member.uid)
