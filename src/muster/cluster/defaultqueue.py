"""Create the default queue of a fresh embedded cluster.

The queue has all resources of the machine, for all users of namespace `default`. It is created once in the life of a
store, before any client is served. A marker is written last. If a server is killed before that, the next start creates
what is missing. When the marker exists nothing is created again, so that a user may delete or change the queue.

Flavor and ClusterQueue have names that no common manifest uses, so applying and deleting Kueue's examples does not
affect them. The LocalQueue is `default`, where Kueue looks for the queue of a job that names none. A store of an older
version keeps its names.
"""

from collections.abc import Iterable

import msgspec

from muster.api.core import CONFIG_MAP, ConfigMap, Node
from muster.api.kueue import (
    BEST_EFFORT_FIFO,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    LOWER_PRIORITY,
    RESOURCE_FLAVOR,
    FlavorQuotas,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
)
from muster.api.kueue.names import DEFAULT_QUEUE
from muster.api.meta import ObjectMeta
from muster.api.ours.embedded import NODES_FLAVOR
from muster.api.ours.teams import FOLLOWS_NODES
from muster.cluster.apiserver.objects.bootstrap import create_missing
from muster.queueing.quota.nodes import quota_from_nodes
from muster.runtime.client import Client

QUEUE = "muster-default"
LOCAL_QUEUE_NAME = DEFAULT_QUEUE
NAMESPACE = "default"

# Names of older versions.
_OLD_FLAVOR, _OLD_QUEUE = "default-flavor", "default"

# The ConfigMap in kube-system that marks the queue as created.
MARKER = "muster-default-queue"
_MARKER_NAMESPACE = "kube-system"

# The resources that the quota covers even before a node has reported its own.
_RESOURCES = ("cpu", "memory", "pods")


async def create_default_queue(client: Client, nodes: Iterable[Node]) -> None:
    """Create the ResourceFlavor, ClusterQueue and LocalQueue of a fresh cluster, and a marker.

    Do nothing if the marker exists, because users may have deleted the queues. The quota follows the nodes.
    Raises `ApiError`.

    nodes: the nodes whose resources the quota covers first.
    """
    if await client.find(CONFIG_MAP, MARKER, _MARKER_NAMESPACE):
        return
    name, flavor_name = await _choose_names(client)
    flavor = ResourceFlavor(metadata=ObjectMeta(name=flavor_name))
    quotas = tuple(ResourceQuota(name=resource, nominal_quota="0") for resource in _RESOURCES)
    group = ResourceGroup(covered_resources=_RESOURCES, flavors=(FlavorQuotas(name=flavor_name, resources=quotas),))
    cluster_queue = {
        "metadata": {"name": name, "annotations": {FOLLOWS_NODES: "true"}},
        "spec": {
            "resourceGroups": msgspec.to_builtins(quota_from_nodes((group,), {flavor_name: flavor}, nodes)),
            "queueingStrategy": BEST_EFFORT_FIFO,
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": LOWER_PRIORITY},
        },
    }
    local_queue = {"metadata": {"name": LOCAL_QUEUE_NAME}, "spec": {"clusterQueue": name}}
    await create_missing(client, RESOURCE_FLAVOR, msgspec.to_builtins(flavor))
    await create_missing(client, CLUSTER_QUEUE, cluster_queue)
    await create_missing(client, LOCAL_QUEUE, local_queue, NAMESPACE)
    await create_missing(
        client, CONFIG_MAP, msgspec.to_builtins(ConfigMap(metadata=ObjectMeta(name=MARKER))), _MARKER_NAMESPACE
    )


async def _choose_names(client: Client) -> tuple[str, str]:
    """Return the names of the default ClusterQueue and its flavor.

    If an older version of Muster has started to create them, these are its names.
    """
    old = await client.find(CLUSTER_QUEUE, _OLD_QUEUE)
    if old is not None and FOLLOWS_NODES in old.metadata.annotations:
        return _OLD_QUEUE, _OLD_FLAVOR
    return QUEUE, NODES_FLAVOR
