"""Nominate the clusters that may admit a workload, by upstream's workload dispatchers or one of Muster's own. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from muster.api.conditions import find
from muster.api.config.types import ALL_AT_ONCE, EARLIEST_START, INCREMENTAL
from muster.api.kueue import WorkloadStatus
from muster.api.kueue.names import QUOTA_RESERVED
from muster.multicluster.dispatch.views import DispatchSettings, Remote
from muster.queueing.conditions import find_last_change

# The time after which a dispatcher that nominates in rounds adds clusters.
ROUND = timedelta(minutes=5)
# The seconds until a start that cannot be estimated: later than any estimate, and earlier than `inf`.
UNKNOWN = 1e18
# The limit of the API (status.nominatedClusterNames).
MOST_NOMINATED = 20


def nominate_clusters(
    status: WorkloadStatus, remotes: Sequence[Remote], settings: DispatchSettings, now: datetime
) -> tuple[tuple[str, ...], datetime | None]:
    """Return the nominated clusters, the current ones first, and when more will be nominated (None: never).

    remotes: the clusters that can be nominated, in order of preference. A dispatcher of another program nominates
    clusters by itself. The earliest-start dispatcher nominates one cluster in each round, so that a wrong estimate
    costs at most one round.
    """
    before = status.nominated_cluster_names
    if settings.dispatcher not in (ALL_AT_ONCE, INCREMENTAL, EARLIEST_START):
        return before, None
    if settings.dispatcher == EARLIEST_START:
        remotes = sorted(remotes, key=_get_seconds_until_start)
    names = [remote.cluster for remote in remotes if remote.cluster not in before]
    if settings.dispatcher == ALL_AT_ONCE:
        return (*before, *sorted(names))[:MOST_NOMINATED], None
    begun, rounds = _count_rounds(status, now)
    room = count_room(status, settings, now)
    wake_at = begun + rounds * ROUND if names[room:] else None
    return (*before, *names[:room])[:MOST_NOMINATED], wake_at


def count_room(status: WorkloadStatus, settings: DispatchSettings, now: datetime) -> int:
    """Return how many more clusters may be nominated by now, for the dispatchers that nominate in rounds."""
    step = 1 if settings.dispatcher == EARLIEST_START else settings.step
    return max(0, _count_rounds(status, now)[1] * step - len(status.nominated_cluster_names))


def _count_rounds(status: WorkloadStatus, now: datetime) -> tuple[datetime, int]:
    """Return when the rounds began, at the quota reservation, and the number of rounds begun until now."""
    begun = find_last_change(find(status.conditions, QUOTA_RESERVED), now)
    return begun, max(0, (now - begun) // ROUND) + 1


def _get_seconds_until_start(remote: Remote) -> float:
    return remote.seconds if remote.seconds is not None else UNKNOWN
