"""Read the parts of a cluster that are checked for problems, as far as the user may see them."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, MULTI_KUEUE_CLUSTER, RESOURCE_FLAVOR
from muster.insight.attention import Scene
from muster.insight.clusters import find_cluster_states
from muster.insight.reader.engine import NOT_LED, is_led
from muster.insight.reader.listing.access import list_or_none, list_or_say
from muster.insight.reader.listing.views import NODE_LINES
from muster.insight.reader.visible import visible_job_rows
from muster.runtime.client import Client
from muster.runtime.transport import Request

# The start of a line of `/readyz` about a check that fails.
_FAILED = "[-]"


async def read_scene(
    client: Client,
    own: str,
    now: datetime,
    say: Callable[[str], None],
    find_rows: Callable[[], Awaitable[tuple[list[dict[str, Any]], str]]] | None = None,
) -> Scene:
    """Read the parts of the cluster that are checked for problems: the engine, nodes, queues, jobs and workers.

    own: the user's namespace, for a user who may list the objects of one namespace only.
    say: receives a sentence about each kind that the user may not see.
    find_rows: returns the rows of the jobs and their namespace, like `visible_job_rows`; None to read them.

    Raises:
        ApiError: the user may not see the jobs of their own namespace.
    """
    unready = await list_failed_checks(client)
    silence = "" if await is_led(client, now) else NOT_LED
    nodes = await list_or_say(client, NODE_LINES, "", say, "nodes")
    jobs, where = await (find_rows() if find_rows is not None else visible_job_rows(client, own, now, say))
    workers = await list_or_none(client, MULTI_KUEUE_CLUSTER)
    return Scene(
        silence=silence,
        unready=unready,
        nodes=nodes,
        flavors=await list_or_none(client, RESOURCE_FLAVOR),
        cluster_queues=await list_or_none(client, CLUSTER_QUEUE),
        local_queues=await list_or_none(client, LOCAL_QUEUE, where),
        jobs=jobs,
        clusters=None if workers is None else find_cluster_states(workers, (), {}),
    )


async def list_failed_checks(client: Client) -> tuple[str, ...]:
    """Return the readiness checks of the server that fail, each with the server's message.

    Return () if none fails, or the server does not list its checks. Raises `TransportError`.
    """
    answer = await client.transport.request(Request("GET", "/readyz", {"verbose": ""}))
    lines = answer.body.decode(errors="replace").splitlines()
    return tuple(line.removeprefix(_FAILED) for line in lines if line.startswith(_FAILED))
