"""Choose the one nominated cluster that gets a clone before the others: a cluster that shows room for it. Pure.

All nominated clusters may admit a workload, and the first to do so runs it. If a worker's queues show free quota, a
clone there is admitted at once, and the clones in the other clusters would only be created, admitted and deleted. So
one of the clusters with room has a head start. The head start ends early if the worker reports that it has no room
after all.

There is no head start for other dispatchers: an external one chooses the clusters for clones itself, and the
earliest-start dispatcher nominates one cluster in each round.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import blake2b

from msgspec.structs import replace

from muster.api.conditions import find, is_true
from muster.api.config.types import ALL_AT_ONCE, INCREMENTAL
from muster.api.kueue import Workload
from muster.api.kueue.names import EVICTED, PENDING_EVALUATION, QUOTA_RESERVED
from muster.multicluster.dispatch.views import DispatchSettings, DispatchView, Lead, Remote

# For how long the other clusters wait. A worker that shows room and admits nothing may be dead.
HEAD_START = timedelta(seconds=10)
# A worker that admits other workloads meanwhile is only busy, and clones elsewhere would add to the load. But a worker
# may admit others for ever.
LONGEST_HEAD_START = timedelta(seconds=60)
# The dispatchers whose nominated clusters need not all get a clone at once.
WITH_HEAD_STARTS = frozenset((ALL_AT_ONCE, INCREMENTAL))


def find_lead(
    view: DispatchView, nominated: Sequence[Remote], settings: DispatchSettings, now: datetime
) -> Lead | None:
    """Return the head start of a workload, even if it is over. Without one, choose one; None if there should be none.

    A workload with objects in some cluster gets no new head start, because an earlier attempt may have given one
    already.
    """
    if settings.dispatcher not in WITH_HEAD_STARTS:
        return None
    if view.lead is not None or len(nominated) < 2 or not all(remote.is_empty for remote in view.remotes):
        return view.lead
    roomy = [remote.cluster for remote in nominated if remote.has_room]
    return Lead(min(roomy, key=lambda cluster: draw_lot(view.workload, cluster)), now) if roomy else None


def renew(lead: Lead, admitted_at: datetime | None) -> Lead:
    """Return the head start, extended if its cluster admitted another workload at this time.

    Such a cluster is busy and not dead.

    admitted_at: None if it admitted none.
    """
    latest = lead.since + LONGEST_HEAD_START - HEAD_START
    return lead if admitted_at is None else replace(lead, since=min(max(lead.since, admitted_at), latest))


def end(lead: Lead) -> Lead:
    """Return the head start, ended at once: with a `since` that is so early that the head start is over."""
    return replace(lead, since=lead.since - LONGEST_HEAD_START)


def find_end_of_head_start(lead: Lead | None, nominated: Sequence[Remote], now: datetime) -> datetime | None:
    """Return when the head start ends; None if there is none or it is over."""
    if lead is None:
        return None
    leader = next((remote for remote in nominated if remote.cluster == lead.cluster), None)
    until = lead.since + HEAD_START
    is_due = lead.since <= now < until  # also after the clock was set back
    return until if is_due and leader is not None and not _has_refused(leader.workload) else None


def is_silent(lead: Lead, remotes: Sequence[Remote], now: datetime) -> bool:
    """Return whether the head start is over although its cluster never tried to admit the workload."""
    leader = next((remote for remote in remotes if remote.cluster == lead.cluster), None)
    return leader is not None and now >= lead.since + HEAD_START and not _has_answered(leader.workload)


def draw_lot(workload: Workload, cluster: str) -> bytes:
    """Return a cluster's lot for a workload; the lowest wins.

    The lots of a workload never change, and differ as if random from workload to workload.
    """
    return blake2b(f"{workload.metadata.uid}/{cluster}".encode()).digest()


def _has_answered(clone: Workload | None) -> bool:
    """Return whether a worker has tried to admit a clone, with any result."""
    reserved = find(clone.status.conditions, QUOTA_RESERVED) if clone is not None else None
    return reserved is not None and reserved.reason != PENDING_EVALUATION


def _has_refused(clone: Workload | None) -> bool:
    """Return whether a worker has tried to admit a clone, and could not or has evicted it."""
    if clone is None:
        return False
    has_quota, is_evicted = (is_true(clone.status.conditions, type_) for type_ in (QUOTA_RESERVED, EVICTED))
    return is_evicted or (_has_answered(clone) and not has_quota)
