"""The queue that a fresh embedded cluster begins with: all that the machine has, for everybody in namespace `default`.

It is made once in the life of a store, before any client is served. The marker is written last: a server that is killed
in between makes what is missing at its next start, and once the marker is there nothing is made again, so that a user
who deletes or changes the queue has their way.
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
from muster.api.meta import ObjectMeta
from muster.cluster.apiserver.objects.bootstrap import create_missing
from muster.queueing.quota.nodes import FOLLOWS_NODES, quota_from_nodes
from muster.runtime.client import Client

FLAVOR = "default-flavor"
QUEUE = "default"
NAMESPACE = "default"

# Says, in namespace kube-system, that the queue has been made.
MARKER = "muster-default-queue"
_MARKER_NAMESPACE = "kube-system"

# What the quota covers even if no node has said yet what it has.
_RESOURCES = ("cpu", "memory", "pods")


async def create_default_queue(client: Client, nodes: Iterable[Node]) -> None:
    """Make the queue, unless it was made before. Raises `ApiError`."""
    if await client.find(CONFIG_MAP, MARKER, _MARKER_NAMESPACE):
        return
    flavor = ResourceFlavor(metadata=ObjectMeta(name=FLAVOR))
    quotas = tuple(ResourceQuota(name=name, nominal_quota="0") for name in _RESOURCES)
    group = ResourceGroup(covered_resources=_RESOURCES, flavors=(FlavorQuotas(name=FLAVOR, resources=quotas),))
    cluster_queue = {
        "metadata": {"name": QUEUE, "annotations": {FOLLOWS_NODES: "true"}},
        "spec": {
            "resourceGroups": msgspec.to_builtins(quota_from_nodes((group,), {FLAVOR: flavor}, nodes)),
            "queueingStrategy": BEST_EFFORT_FIFO,
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": LOWER_PRIORITY},
        },
    }
    local_queue = {"metadata": {"name": QUEUE}, "spec": {"clusterQueue": QUEUE}}
    await create_missing(client, RESOURCE_FLAVOR, msgspec.to_builtins(flavor))
    await create_missing(client, CLUSTER_QUEUE, cluster_queue)
    await create_missing(client, LOCAL_QUEUE, local_queue, NAMESPACE)
    await create_missing(
        client, CONFIG_MAP, msgspec.to_builtins(ConfigMap(metadata=ObjectMeta(name=MARKER))), _MARKER_NAMESPACE
    )
