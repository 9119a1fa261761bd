"""Past usage as the status of a LocalQueue shows it: enough to go on from there after a restart.

A status says what was consumed as of a moment. While nothing is in use that fades by itself, so what it says need not
be written again for it to stay right.
"""

from collections import Counter
from datetime import datetime, timedelta

from muster.api.kueue import AdmissionFairSharingStatus
from muster.api.values.quantity import ResourceList, amount, format_amount
from muster.queueing.model import Usage
from muster.queueing.pending.usage import Account


def account(status: AdmissionFairSharingStatus | None, now: datetime) -> Account:
    """What a status tells; where it tells nothing, the account begins now. Raises `QuantityError`."""
    consumed = {
        resource: float(amount(resource, quantity))
        for resource, quantity in (status.consumed_resources if status is not None else {}).items()
    }
    if status is None or status.last_update is None or not any(consumed.values()):
        return Account(now)
    return Account(min(status.last_update, now), consumed)


def shown(
    account: Account, old: AdmissionFairSharingStatus | None, *, used: bool, half_life: timedelta
) -> AdmissionFairSharingStatus | None:
    """What is to be shown of an account from now on; the old status where that still tells enough.

    used: something was in use or charged since the old one. If not, it is enough to show each halving, and the end.
    """
    before = old.consumed_resources if old is not None else {}
    # What was used once is shown with 0: a merge patch does not take resources away.
    consumed: ResourceList = dict.fromkeys(before, "0")
    consumed |= {resource: format_amount(resource, round(value)) for resource, value in account.consumed.items()}
    new = AdmissionFairSharingStatus(consumed_resources=consumed, last_update=account.updated.replace(microsecond=0))
    if used or old is None:
        return new
    if new.consumed_resources == before:
        return old
    since = old.last_update
    return new if since is None or account.faded or account.updated - since >= half_life else old


def by_resource(usage: Usage) -> dict[str, float]:
    """How much of each resource, whatever the flavor."""
    total: Counter[str] = Counter()
    for fr, quantity in usage.items():
        total[fr.resource] += quantity
    return {resource: float(quantity) for resource, quantity in total.items()}
