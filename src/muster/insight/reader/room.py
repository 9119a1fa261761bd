"""Reads all that a cluster has, so that it can be said what will never fit in it."""

from muster.api.core import NODE
from muster.api.kueue import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE
from muster.insight.never import Room
from muster.insight.reader.queues import completion, is_embedded, list_or_none
from muster.runtime.client import Client


async def survey(client: Client, namespace: str = "") -> Room:
    """What there is; what the user may not see is as if it was not there, and then nothing is said of it.

    namespace: what is about pods there is read there, if it may not be read everywhere.
    """
    return Room(
        await list_or_none(client, NODE) or (),
        fixed=await is_embedded(client),
        cluster_queues=await list_or_none(client, CLUSTER_QUEUE) or (),
        cohorts=await list_or_none(client, COHORT) or (),
        local_queues=await list_or_none(client, LOCAL_QUEUE) or (),
        completion=await completion(client, namespace),
    )
