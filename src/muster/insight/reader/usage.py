"""Read the current usage of pods."""

from collections.abc import Callable, Sequence

from muster.insight.reader.listing.access import list_or_say
from muster.insight.usage import POD_USAGE, PodUsage
from muster.runtime.client import Client


async def read_usage(client: Client, namespace: str, say: Callable[[str], None]) -> Sequence[PodUsage]:
    """Return the measured usage of the running pods; empty if no metrics are served or the user may not see them.

    A server without recent measurements responds after a second.

    say: receives a sentence if the user may not see the metrics.
    """
    return await list_or_say(client, POD_USAGE, namespace, say, "uses of CPU and memory") or ()
