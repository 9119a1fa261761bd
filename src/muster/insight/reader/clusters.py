"""Read a manager's worker clusters. A cluster without MultiKueue has none."""

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
from muster.insight.clusters import WorkerClusterState, clusters_of_queues, find_cluster_states
from muster.insight.reader.listing.access import UNSEEN, get_or_none, list_or_none
from muster.runtime.client import Client
from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.refusals import ignoring
from muster.runtime.transport import Request


async def clusters_of(client: Client) -> list[WorkerClusterState] | None:
    """Return the states of all worker clusters; None if the user may not list them or the kind is not served."""
    with ignoring(*UNSEEN):
        return await all_clusters(client)
    return None


async def all_clusters(client: Client) -> list[WorkerClusterState]:
    """Return the states of all worker clusters; [] if there are none.

    Raises `ApiError` if the user may not list them, or the server does not serve their kind.
    """
    clusters = (await client.list(MULTI_KUEUE_CLUSTER)).items
    if not clusters:
        return []
    workloads = await list_or_none(client, WORKLOAD) or []
    namespace = await find_engine_namespace(client)
    servers = {}
    for cluster in clusters:
        config = await read_connection_to(client, cluster, namespace)
        if isinstance(config, ConnectionConfig):
            servers[cluster.metadata.name] = config.cluster.server
    return find_cluster_states(clusters, workloads, servers)


async def find_destinations(client: Client, queues: Iterable[ClusterQueue]) -> dict[str, tuple[str, ...]]:
    """Return the worker clusters to which each ClusterQueue sends its jobs, by ClusterQueue.

    ClusterQueues that send no jobs, or whose checks or configurations the user may not see, are left out.
    """
    queues = list(queues)
    if not any(queue.spec.admission_checks_strategy for queue in queues):
        return {}
    checks = await list_or_none(client, ADMISSION_CHECK) or ()
    return clusters_of_queues(queues, checks, await list_or_none(client, MULTI_KUEUE_CONFIG) or ())


async def sends_away(client: Client, namespace: str, queue: str) -> bool:
    """Return whether a LocalQueue sends its jobs to worker clusters; False if the user may not see that."""
    local = await get_or_none(client, LOCAL_QUEUE, queue, namespace)
    if local is None:
        return False
    behind = await get_or_none(client, CLUSTER_QUEUE, local.spec.cluster_queue)
    return behind is not None and bool(await find_destinations(client, [behind]))


async def find_engine_namespace(client: Client) -> str:
    """Return the namespace with the kubeconfigs of the worker clusters; the default one if it is unknown."""
    return await _read_configured_name(client, namespace_of, NAMESPACE)


async def read_origin(client: Client) -> str:
    """Return the value of the origin label on the manager's objects in worker clusters, or the default if unknown."""
    return await _read_configured_name(client, origin_of, MultiKueue().origin)


async def _read_configured_name(client: Client, of: Callable[[Any], str], usual: str) -> str:
    try:
        return of(msgspec.json.decode((await client.raw(Request("GET", CONFIGZ))).body))
    except (ApiError, msgspec.MsgspecError, AttributeError):
        return usual


async def read_connection_to(client: Client, cluster: MultiKueueCluster, namespace: str) -> ConnectionConfig | str:
    """Return the settings of the manager's connection to a worker cluster, or why the user may not see them."""
    from muster.multicluster.links.kubeconfigs import (
        SECRET_KEY,
        UntrustedKubeconfigError,
        read_trusted,
    )  # importing it loads asyncio

    name, source = cluster.metadata.name, cluster.spec.cluster_source.kube_config
    if source is None or source.location_type != SECRET_LOCATION:
        return f"the kubeconfig of cluster {name} is not in a Secret: only its manager can read it"
    secret = await get_or_none(client, SECRET, source.location, namespace)
    if secret is None or SECRET_KEY not in secret.data:
        return f"the kubeconfig of cluster {name}, in Secret {namespace}/{source.location}, may not be read by you"
    try:
        return read_trusted(secret.data[SECRET_KEY], f"Secret {namespace}/{source.location}")
    except UntrustedKubeconfigError as error:
        return str(error)
