"""Reads the worker clusters of a manager; one without MultiKueue has none."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from muster.api.config.configz import CONFIGZ, namespace_of, origin_of
from muster.api.config.types import NAMESPACE, MultiKueue
from muster.api.core import SECRET
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    MULTI_KUEUE_CLUSTER,
    MULTI_KUEUE_CONFIG,
    WORKLOAD,
    ClusterQueue,
    MultiKueueCluster,
)
from muster.api.kueue.checks import SECRET_LOCATION
from muster.api.status import ApiError
from muster.insight.clusters import ClusterState, clusters_of_queues, find_cluster_states
from muster.insight.reader.queues import UNSEEN, get_or_none, list_or_none
from muster.multicluster.kubeconfigs import SECRET_KEY, UntrustedKubeconfigError, trusted
from muster.runtime.client import Client
from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.refusals import ignoring
from muster.runtime.transport import Request


async def clusters_of(client: Client) -> list[ClusterState] | None:
    """All of them; None if the server does not serve them, or the user may not list them."""
    with ignoring(*UNSEEN):
        return await all_clusters(client)
    return None


async def all_clusters(client: Client) -> list[ClusterState]:
    """All of them. Raises `ApiError` if the server does not serve them, or the user may not list them."""
    clusters = (await client.list(MULTI_KUEUE_CLUSTER)).items
    if not clusters:
        return []
    workloads = await list_or_none(client, WORKLOAD) or []
    namespace = await engine_namespace(client)
    servers = {}
    for cluster in clusters:
        config = await connection_to(client, cluster, namespace)
        if isinstance(config, ConnectionConfig):
            servers[cluster.metadata.name] = config.cluster.server
    return find_cluster_states(clusters, workloads, servers)


async def destinations(client: Client, queues: Iterable[ClusterQueue]) -> dict[str, tuple[str, ...]]:
    """Where the jobs of ClusterQueues run, of those that send them to other clusters, as far as it may be seen."""
    queues = list(queues)
    if not any(queue.spec.admission_checks_strategy for queue in queues):
        return {}
    checks = await list_or_none(client, ADMISSION_CHECK) or ()
    return clusters_of_queues(queues, checks, await list_or_none(client, MULTI_KUEUE_CONFIG) or ())


async def sends_away(client: Client, namespace: str, queue: str) -> bool:
    """Whether jobs of a LocalQueue run in other clusters, as far as it may be seen."""
    local = await get_or_none(client, LOCAL_QUEUE, queue, namespace)
    if local is None:
        return False
    behind = await get_or_none(client, CLUSTER_QUEUE, local.spec.cluster_queue)
    return behind is not None and bool(await destinations(client, [behind]))


async def engine_namespace(client: Client) -> str:
    """Where the manager reads the kubeconfigs of its clusters; where it does not say, the usual place."""
    return await _configured(client, namespace_of, NAMESPACE)


async def origin(client: Client) -> str:
    """What marks the manager's objects in its clusters; where it does not say, the usual word."""
    return await _configured(client, origin_of, MultiKueue().origin)


async def _configured(client: Client, of: Callable[[Any], str], usual: str) -> str:
    try:
        return of(msgspec.json.decode((await client.raw(Request("GET", CONFIGZ))).body))
    except (ApiError, msgspec.MsgspecError, AttributeError):
        return usual


async def connection_to(client: Client, cluster: MultiKueueCluster, namespace: str) -> ConnectionConfig | str:
    """How the manager reaches a cluster, or why this user cannot know."""
    name, source = cluster.metadata.name, cluster.spec.cluster_source.kube_config
    if source is None or source.location_type != SECRET_LOCATION:
        return f"the kubeconfig of cluster {name} is not in a Secret: only its manager can read it"
    secret = await get_or_none(client, SECRET, source.location, namespace)
    if secret is None or SECRET_KEY not in secret.data:
        return f"the kubeconfig of cluster {name}, in Secret {namespace}/{source.location}, may not be read by you"
    try:
        return trusted(secret.data[SECRET_KEY], f"Secret {namespace}/{source.location}")
    except UntrustedKubeconfigError as error:
        return str(error)
