"""Find which manager runs on a cluster: the holder of the Lease of engines, Kueue's or Muster's, if it renews it.

Only this machine's own clock counts, as in an election, because the times in a Lease are from other clocks.
"""

from collections.abc import Callable

from muster.api.config import Configuration
from muster.api.groups.coordination import LEASE, Lease
from muster.operator.precedence import is_ours, place
from muster.runtime.client import Client
from muster.runtime.clock import Clock

# The interval at which a Lease that may be held is read.
LOOK_SECONDS = 2.0

Report = Callable[[str], None]


async def other_manager(client: Client, clock: Clock, configuration: Configuration, report: Report) -> str:
    """Return the identity of another program's running manager; "" if none is running.

    report: called with the reason of a wait, if there is one.

    Raises `ApiError` if the Lease may not be read, because an engine may be running then.
    """
    if is_ours(await read_holder(client, configuration)):
        return ""
    engine = await find_working_holder(client, clock, configuration, report)
    return "" if is_ours(engine) else engine


async def read_holder(client: Client, configuration: Configuration) -> str:
    """Return the holder in the Lease of engines, whether that engine still runs or not; "" for none."""
    namespace, name = place(configuration)
    lease: Lease | None = await client.find(LEASE, name, namespace)
    return "" if lease is None else lease.spec.holder_identity or ""


async def find_working_holder(
    client: Client, clock: Clock, configuration: Configuration, report: Report, but: str = ""
) -> str:
    """Return the identity of the manager that holds and renews the Lease of engines; "" if none renews it in time.

    report: called with the reason of a wait, if there is one.
    but: an identity that does not count.
    """
    return await find_renewer(client, clock, *place(configuration), report, but)


async def find_renewer(client: Client, clock: Clock, namespace: str, name: str, report: Report, but: str = "") -> str:
    """Return the holder of a Lease if it renews the Lease within the Lease's duration; otherwise "".

    report: called with the reason of a wait, if there is one.
    but: an identity that does not count.
    """
    first: Lease | None = await client.find(LEASE, name, namespace)
    if first is None or first.spec.holder_identity in (None, "", but):
        return ""
    lasts = first.spec.lease_duration_seconds or 0
    report(
        f"{first.spec.holder_identity} holds the Lease {namespace}/{name}: whether it still works is seen within"
        f" {lasts} s"
    )
    until = clock.monotonic() + lasts
    while (remaining := until - clock.monotonic()) > 0:
        await clock.sleep(min(LOOK_SECONDS, remaining))
        now: Lease | None = await client.find(LEASE, name, namespace)
        if now is None:
            return ""
        if now.metadata.resource_version != first.metadata.resource_version:
            holder = now.spec.holder_identity or ""
            return "" if holder == but else holder
    return ""
