"""Read all nodes and quotas of a cluster, to decide which jobs never fit."""

from muster.api.kueue import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, RESOURCE_FLAVOR
from muster.gang.arrays import is_numpy_installed
from muster.insight.forecasts.never import VisibleCapacity
from muster.insight.reader.engine import is_embedded
from muster.insight.reader.listing.lists import Lists
from muster.insight.reader.listing.memo import Memo
from muster.insight.reader.listing.views import NODE_LINES


async def survey_room(lists: Lists, namespace: str = "", memo: Memo | None = None) -> VisibleCapacity:
    """Read the nodes and quotas of a cluster.

    Objects that the user may not see are missing in the result, and verdicts ignore them. Without numpy, the nodes are
    missing, because placement needs numpy.

    namespace: where to read LimitRanges if the user may not list them in all namespaces.
    memo: results of earlier calls, for a caller whose lists follow a watch.
    """
    fixed = await is_embedded(lists.client)
    nodes = (await lists.of(NODE_LINES) or ()) if is_numpy_installed() else ()
    queues, cohorts = await lists.of(CLUSTER_QUEUE) or (), await lists.of(COHORT) or ()
    local_queues, flavors = await lists.of(LOCAL_QUEUE) or (), await lists.of(RESOURCE_FLAVOR)
    completion = await lists.completion(namespace)

    def make() -> VisibleCapacity:
        return VisibleCapacity(
            nodes,
            fixed=fixed,
            cluster_queues=queues,
            cohorts=cohorts,
            local_queues=local_queues,
            flavors=flavors,
            completion=completion,
        )

    return make() if memo is None else memo.recall("room", namespace, (fixed, *lists.list_objects()), make)
