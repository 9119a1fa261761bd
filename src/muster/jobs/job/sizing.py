"""Decide how many pods should run, which pods are deleted, and which indexes get a new pod.

A decision either deletes or creates, never both, and at most `MAX_PODS` at once. Scaling an Indexed Job down removes
exactly the pods at or above the new size. Lowering only its parallelism removes the pods whose removal loses least,
whatever their index.
"""

from datetime import UTC, datetime, timedelta
from itertools import groupby

from msgspec import Struct

from muster.api.pods import find_condition, is_ready
from muster.api.values.indexes import Indexes
from muster.jobs.interruption import is_leaving
from muster.jobs.job.accounting import EndedPods
from muster.jobs.job.backoff import Backoff, index_until
from muster.jobs.job.census import Census, Member, failures_of_index, interruptions_of_index
from muster.jobs.job.plan import Creation
from muster.jobs.job.pod_failure_policy import judge
from muster.jobs.job.terms import JobTerms

# The maximum number of pods that one decision creates or deletes (upstream's number), so that other Jobs do not wait
# long.
MAX_PODS = 500


class Resize(Struct, frozen=True):
    """The pods to create or delete now.

    more: whether there is more to change than one decision changes.
    wake_at: the end of a back-off that delays some pods; None if no pod is delayed.
    """

    delete: tuple[Member, ...] = ()
    create: tuple[Creation, ...] = ()
    more: bool = False
    wake_at: datetime | None = None


def resize(terms: JobTerms, census: Census, tally: EndedPods, backoff: Backoff, now: datetime) -> Resize:
    """Return which pods to create or delete for a Job that has not ended."""
    if terms.suspended:
        return Resize(delete=census.active)
    active_target = wanted_active(terms, len(census.active), tally.succeeded)
    if surplus := _find_surplus(terms, census.active, tally, len(census.active) - active_target):
        return Resize(delete=tuple(surplus[:MAX_PODS]), more=len(surplus) > MAX_PODS)
    terminating = len(census.terminating) if terms.replace_only_failed else 0
    missing = active_target - terminating - len(census.active)
    if missing <= 0 or any(is_leaving(member.pod) for member in census.active):
        # A preempted gang is recreated as a whole: a single replacement would take the preemptor's room.
        return Resize()
    if terms.backoff_limit_per_index is None and (until := backoff.until()) is not None and until > now:
        return Resize(wake_at=until)
    if not terms.indexed:
        return Resize(create=(Creation(),) * min(missing, MAX_PODS), more=missing > MAX_PODS)
    return _plan_new_indexes(terms, census, tally, missing, now)


def wanted_active(terms: JobTerms, active: int, succeeded: int) -> int:
    """Return how many pods should be active.

    A work queue (a Job without completions) in which a pod has succeeded starts no more pods, and stops none.
    """
    if terms.completions is None:
        return active if succeeded > 0 else terms.parallelism
    return max(0, min(terms.parallelism, terms.completions - succeeded))


def _find_surplus(terms: JobTerms, active: tuple[Member, ...], tally: EndedPods, at_least: int) -> list[Member]:
    """Return `at_least` or more active pods to delete: all invalid pods, then the pods whose deletion loses least work.

    A pod is invalid if its index is missing or out of range, or if an earlier pod of its index has succeeded.
    """
    over = tally.completed | (tally.failed_indexes or Indexes())
    surplus: list[Member] = []
    rest = list(active)
    if terms.indexed:
        rest = []
        for index, group in groupby(active, key=lambda member: member.index):
            members = list(group)
            if not terms.has_index(index) or index in over:
                surplus += members
            elif len(members) == 1:
                rest += members
            else:
                *duplicates, keeper = sorted(members, key=_rank_pod)
                surplus += duplicates
                rest.append(keeper)
    if len(surplus) < at_least:
        surplus += sorted(rest, key=_rank_pod)[: at_least - len(surplus)]
    return surplus


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def _rank_pod(member: Member) -> tuple[bool, int, bool, int, int, int]:
    """Return a sort key that puts first the pods whose deletion loses least work.

    This is upstream's order for all controllers: not on a node, pending, not ready, ready for the shortest time,
    restarted most often, newest.
    """
    pod = member.pod
    ready = find_condition(pod, "Ready") if is_ready(pod) else None
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        ready is not None,
        -_to_micros(ready.last_transition_time) if ready else 0,
        -max((status.restart_count for status in pod.status.container_statuses), default=0),
        -_to_micros(pod.metadata.creation_timestamp),
    )


def _to_micros(moment: datetime | None) -> int:
    """Return microseconds since 1970; None counts as the far future."""
    return (moment - _EPOCH) // timedelta(microseconds=1) if moment else 2**62


def _plan_new_indexes(terms: JobTerms, census: Census, tally: EndedPods, missing: int, now: datetime) -> Resize:
    """Return new pods for the lowest indexes that have none. An index in back-off keeps its place in the order."""
    taken = Indexes.of(member.index for member in census.active) | tally.completed
    if tally.failed_indexes is not None:
        taken |= tally.failed_indexes
    if terms.replace_only_failed:
        taken |= Indexes.of(member.index for member in census.terminating if terms.has_index(member.index))
    create: list[Creation] = []
    wake_at: datetime | None = None
    for index in taken.lowest_missing(min(missing, MAX_PODS), terms.completions or 0):
        last_failed = tally.awaiting.get(index)
        excused = last_failed is not None and judge(terms.pod_failure_policy, last_failed.pod).excused
        until = index_until(last_failed.pod) if last_failed and not excused else None
        if until is not None and until > now:
            wake_at = until if wake_at is None else min(wake_at, until)
        else:
            create.append(_make_creation(terms, index, last_failed))
    return Resize(create=tuple(create), more=missing > MAX_PODS and bool(create), wake_at=wake_at)


def _make_creation(terms: JobTerms, index: int, last_failed: Member | None) -> Creation:
    if terms.backoff_limit_per_index is None:
        return Creation(index)
    if last_failed is None:
        return Creation(index, 0)
    failures, ignored = failures_of_index(last_failed.pod)
    judgement = judge(terms.pod_failure_policy, last_failed.pod)
    interruptions = interruptions_of_index(last_failed.pod)
    if judgement.has_no_rule:
        return Creation(index, failures, ignored, interruptions + 1)
    return Creation(index, failures + judgement.counts, ignored + (not judgement.counts), interruptions)
