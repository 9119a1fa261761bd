"""Convert past usage to and from the status of a LocalQueue, which restores the account after a restart.

A status has the amounts consumed up to a moment. While nothing is in use, their decay follows from the time alone, so
the status remains correct without further writes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from muster.api.kueue import AdmissionFairSharingStatus, LocalQueue
from muster.api.values.quantity import ResourceList, format_amount, parse, parse_amount
from muster.queueing.model import Usage
from muster.queueing.pending.usage import Decay, RecentUsage


def status_of(local: LocalQueue | None) -> AdmissionFairSharingStatus | None:
    """Return the past usage in the status of a LocalQueue; None if the status has none."""
    sharing = local.status.fair_sharing if local is not None else None
    return sharing.admission_fair_sharing_status if sharing is not None else None


def weight_of(local: LocalQueue | None) -> float:
    """Return the weight of a LocalQueue among the LocalQueues of its ClusterQueue."""
    sharing = local.spec.fair_sharing if local is not None else None
    return float(parse(sharing.weight)) if sharing is not None else 1.0


def score_status(local: LocalQueue, current: Mapping[str, float], decay: Decay, now: datetime) -> float:
    """Return a number that orders LocalQueues by past usage, from the status of one LocalQueue.

    current: the usage since the status was written.

    Raises `QuantityError`.
    """
    account = read_account(status_of(local), now)
    consumed = decay.decay_usage(account.consumed, current, now - account.updated)
    return decay.score(consumed, weight_of(local))


def read_account(status: AdmissionFairSharingStatus | None, now: datetime) -> RecentUsage:
    """Return the account that a status records; an empty account if it records no usage. Raises `QuantityError`."""
    consumed = {
        resource: float(parse_amount(resource, quantity))
        for resource, quantity in (status.consumed_resources if status is not None else {}).items()
    }
    if status is None or status.last_update is None or not any(consumed.values()):
        return RecentUsage(now)
    return RecentUsage(min(status.last_update, now), consumed)


def make_status(
    account: RecentUsage,
    old: AdmissionFairSharingStatus | None,
    *,
    used: bool,
    half_life: timedelta,
    covered: Iterable[str] = (),
) -> AdmissionFairSharingStatus | None:
    """Return the status to write for an account; `old` if it still restores the account well enough.

    used: whether quota was in use or charged since the old status. If not, the status is written only each time the
    usage has halved, and at the end.
    covered: the resources of the ClusterQueue, shown with 0 if none was consumed, as in upstream.
    """
    before = old.consumed_resources if old is not None else {}
    # A resource that is no longer used is written as 0, because a merge patch does not remove resources.
    consumed: ResourceList = dict.fromkeys((*before, *covered), "0")
    consumed |= {resource: format_amount(resource, round(value)) for resource, value in account.consumed.items()}
    new = AdmissionFairSharingStatus(consumed_resources=consumed, last_update=account.updated.replace(microsecond=0))
    if used or old is None:
        return new
    if new.consumed_resources == before:
        return old
    since = old.last_update
    return new if since is None or account.has_faded or account.updated - since >= half_life else old


def by_resource(usage: Usage) -> dict[str, float]:
    """Return the usage of each resource, summed over flavors."""
    total: Counter[str] = Counter()
    for fr, quantity in usage.items():
        total[fr.resource] += quantity
    return {resource: float(quantity) for resource, quantity in total.items()}
