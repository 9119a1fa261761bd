"""Reads all that a cluster has, so that it can be said what will never fit in it."""

from muster.api.core import NODE
from muster.api.kueue import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, RESOURCE_FLAVOR
from muster.gang.arrays import is_numpy_installed
from muster.insight.forecasts.never import Room
from muster.insight.reader.lists import Lists
from muster.insight.reader.queues import is_embedded


async def survey(lists: Lists, namespace: str = "") -> Room:
    """What there is; what the user may not see is as if it was not there, and then nothing is said of it.

    So are nodes where numpy is not installed, in whose arrays pods are fitted into them.
    namespace: what is about pods there is read there, if it may not be read everywhere.
    """
    return Room(
        (await lists.of(NODE) or ()) if is_numpy_installed() else (),
        fixed=await is_embedded(lists.client),
        cluster_queues=await lists.of(CLUSTER_QUEUE) or (),
        cohorts=await lists.of(COHORT) or (),
        local_queues=await lists.of(LOCAL_QUEUE) or (),
        flavors=await lists.of(RESOURCE_FLAVOR),
        completion=await lists.completion(namespace),
    )
