"""Read whether an engine leads a cluster, whether the cluster is embedded, and whether its nodes are simulated."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from muster.api.core import NODE
from muster.api.groups.coordination import LEASE, Lease
from muster.api.kueue.visibility import VISIBILITY_GROUP, VISIBILITY_VERSIONS
from muster.api.ours.embedded import NODE_KIND_LABEL, SERVER_MARK, SIMULATED
from muster.insight.reader.listing.access import UNSEEN, get_or_none
from muster.runtime.client import Client
from muster.runtime.refusals import ignoring
from muster.runtime.transport import Request

NOT_LED = "no engine answers, so nothing that waits starts: does muster controllers, or the manager of Kueue, run?"
# The states that a job leaves only if an engine runs.
_FOR_ENGINE = frozenset(("Queued", "Checking", "Evicting"))


async def is_embedded(client: Client) -> bool:
    """Return whether the cluster is an embedded cluster of Muster."""
    return SERVER_MARK in await client.find_version()


async def is_led(client: Client, now: datetime) -> bool:
    """Return whether an engine runs in the cluster, as far as this user can see.

    The result is False if the engine does not serve the visibility API and no engine renews the Lease. The Lease is
    checked because an engine outside the cluster never serves that API.
    """
    path = f"/apis/{VISIBILITY_GROUP}/{VISIBILITY_VERSIONS[0]}"
    if (await client.transport.request(Request("GET", path))).status != 503:
        return True
    from muster.api.config.types import NAMESPACE, LeaderElection  # imported late because it loads slowly

    lease = await get_or_none(client, LEASE, LeaderElection().resource_name, NAMESPACE)
    return lease is not None and _is_held(lease, now)


def _is_held(lease: Lease, now: datetime) -> bool:
    spec = lease.spec
    lasts = timedelta(seconds=spec.lease_duration_seconds or 0)
    return bool(spec.holder_identity and spec.renew_time and now < spec.renew_time + lasts)


async def say_if_not_led(client: Client, states: Iterable[str], now: datetime, say: Callable[[str], None]) -> None:
    """Pass a warning to `say` if no engine runs and a job is in a state that only an engine can end."""
    if not _FOR_ENGINE.isdisjoint(states) and not await is_led(client, now):
        say(NOT_LED)


async def is_simulated(client: Client) -> bool:
    """Return whether the cluster has nodes and all are simulated. The result is False if the user may not see nodes."""

    async def has_node(labels: str) -> bool:
        return bool((await client.page(NODE, labels=labels, limit=1)).items)

    with ignoring(*UNSEEN):
        return not await has_node(f"{NODE_KIND_LABEL}!={SIMULATED}") and await has_node(
            f"{NODE_KIND_LABEL}={SIMULATED}"
        )
    return False
