"""How many pods should run, which of them go, and which indexes get a new one.

A decision either deletes or creates, never both, and at most `MAX_PODS` at once. Scaling an Indexed Job down removes
the pods at or above the new size and nothing else; lowering only its parallelism takes the pods with the least to
lose, whatever their index.
"""

from datetime import UTC, datetime, timedelta
from itertools import groupby

from msgspec import Struct

from muster.api.pods import find_condition, is_ready
from muster.api.values.indexes import Indexes
from muster.jobs.job.accounting import Tally
from muster.jobs.job.backoff import Backoff, index_until
from muster.jobs.job.census import Census, Member, failures_of_index
from muster.jobs.job.plan import Creation
from muster.jobs.job.pod_failure_policy import judge
from muster.jobs.job.terms import Terms

# Pods created or deleted by one decision (upstream's number): no Job keeps the others waiting for long.
MAX_PODS = 500


class Resize(Struct, frozen=True):
    """The change in pods.

    more: there is more to change than one decision does.
    wake_at: when a back-off ends that holds some pods back.
    """

    delete: tuple[Member, ...] = ()
    create: tuple[Creation, ...] = ()
    more: bool = False
    wake_at: datetime | None = None


def resize(terms: Terms, census: Census, tally: Tally, backoff: Backoff, now: datetime) -> Resize:
    """What to change in a Job that goes on."""
    if terms.suspended:
        return Resize(delete=census.active)
    wanted = wanted_active(terms, len(census.active), tally.succeeded)
    if surplus := _surplus(terms, census.active, tally, len(census.active) - wanted):
        return Resize(delete=tuple(surplus[:MAX_PODS]), more=len(surplus) > MAX_PODS)
    terminating = len(census.terminating) if terms.replace_only_failed else 0
    missing = wanted - terminating - len(census.active)
    if missing <= 0:
        return Resize()
    if terms.backoff_limit_per_index is None and (until := backoff.until()) is not None and until > now:
        return Resize(wake_at=until)
    if not terms.indexed:
        return Resize(create=(Creation(),) * min(missing, MAX_PODS), more=missing > MAX_PODS)
    return _new_indexes(terms, census, tally, missing, now)


def wanted_active(terms: Terms, active: int, succeeded: int) -> int:
    """How many pods should be active. A work queue with a success starts none and stops none."""
    if terms.completions is None:
        return active if succeeded > 0 else terms.parallelism
    return max(0, min(terms.parallelism, terms.completions - succeeded))


def _surplus(terms: Terms, active: tuple[Member, ...], tally: Tally, at_least: int) -> list[Member]:
    """Active pods to remove: all that have no business being there, then those with the least to lose.

    An index has no business if it is out of range or none, and also if an earlier pod of it has succeeded after all.
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
                *duplicates, keeper = sorted(members, key=_worth)
                surplus += duplicates
                rest.append(keeper)
    if len(surplus) < at_least:
        surplus += sorted(rest, key=_worth)[: at_least - len(surplus)]
    return surplus


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def _worth(member: Member) -> tuple[bool, int, bool, int, int, int]:
    """What would be lost with a pod, so that the least comes first; upstream's order for all controllers.

    Not on a node, then pending, then not ready, then ready for the shortest time, then restarted most, then newest.
    """
    pod = member.pod
    ready = find_condition(pod, "Ready") if is_ready(pod) else None
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        ready is not None,
        -_micros(ready.last_transition_time) if ready else 0,
        -max((status.restart_count for status in pod.status.container_statuses), default=0),
        -_micros(pod.metadata.creation_timestamp),
    )


def _micros(moment: datetime | None) -> int:
    """Microseconds since 1970; an unknown moment is as good as one yet to come."""
    return (moment - _EPOCH) // timedelta(microseconds=1) if moment else 2**62


def _new_indexes(terms: Terms, census: Census, tally: Tally, missing: int, now: datetime) -> Resize:
    """New pods for the lowest indexes that have none; an index in back-off keeps its place in the row."""
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
            create.append(_creation(terms, index, last_failed))
    return Resize(create=tuple(create), more=missing > MAX_PODS and bool(create), wake_at=wake_at)


def _creation(terms: Terms, index: int, last_failed: Member | None) -> Creation:
    if terms.backoff_limit_per_index is None:
        return Creation(index)
    if last_failed is None:
        return Creation(index, 0)
    failures, ignored = failures_of_index(last_failed.pod)
    judgement = judge(terms.pod_failure_policy, last_failed.pod)
    if judgement.excused:
        return Creation(index, failures, ignored)
    return Creation(index, failures + judgement.counts, ignored + (not judgement.counts))
