"""Reads all that a cluster has, so that it can be said what will never fit in it."""

from muster.api.core import NODE
from muster.api.core.quota import LIMIT_RANGE
from muster.api.kueue import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE
from muster.api.runtimeclass import RUNTIME_CLASS
from muster.insight.never import Room
from muster.insight.reader.queues import is_embedded, list_or_none
from muster.runtime.client import Client


async def survey(client: Client) -> Room:
    """What there is; what the user may not see is as if it was not there, and then nothing is said of it."""
    return Room(
        await list_or_none(client, NODE) or (),
        fixed=await is_embedded(client),
        cluster_queues=await list_or_none(client, CLUSTER_QUEUE) or (),
        cohorts=await list_or_none(client, COHORT) or (),
        local_queues=await list_or_none(client, LOCAL_QUEUE) or (),
        limit_ranges=await list_or_none(client, LIMIT_RANGE) or (),
        runtime_classes=await list_or_none(client, RUNTIME_CLASS) or (),
    )
