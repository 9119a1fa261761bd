"""Add a worker cluster to a manager, and check whether the manager reaches it. Joining again is safe."""

from collections.abc import Sequence
from typing import Any

import click

from muster.actions.waiting import wait_for_result
from muster.api.conditions import find
from muster.api.core import NAMESPACE, SECRET
from muster.api.kinds import Kind
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    MULTI_KUEUE_CLUSTER,
    MULTI_KUEUE_CONFIG,
    ClusterQueue,
    MultiKueueCluster,
)
from muster.api.kueue.names import ACTIVE
from muster.api.meta import Condition
from muster.api.status import ApiError
from muster.cli.actions.clusters import membership
from muster.cli.actions.clusters.membership import CHECK, MembershipError
from muster.cli.terminal.output import say
from muster.insight.reader.clusters import find_engine_namespace
from muster.runtime.client import Client
from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.kube.kubeconfig_text import write_kubeconfig
from muster.runtime.realclock import Clock
from muster.runtime.refusals import ignoring, is_refusal

_ATTEMPTS = 10  # for objects that other clients change, too


async def join(client: Client, name: str, config: ConnectionConfig, queues: Sequence[str]) -> None:
    """Make a cluster a worker of this manager: store its kubeconfig, and send the jobs of these ClusterQueues there.

    Each change is printed, except a new namespace. Raises `ApiError`, `InsecureKubeconfigError` and
    `click.ClickException`.
    """
    kubeconfig = write_kubeconfig(config, name)
    namespace = await find_engine_namespace(client)
    cluster = await client.find(MULTI_KUEUE_CLUSTER, name)
    check = await client.find(ADMISSION_CHECK, CHECK)
    try:
        membership.require_free(name, cluster)
        config_name = membership.config_name(check)
    except MembershipError as error:
        raise click.ClickException(str(error)) from None
    for queue in queues:
        await client.get(CLUSTER_QUEUE, queue)  # all queues are checked before the first write
    with ignoring("AlreadyExists", "Forbidden"):
        await client.create(NAMESPACE.seen_as(dict), {"metadata": {"name": namespace}})
    await _put_secret(client, membership.make_secret(name, kubeconfig), namespace)
    if cluster is None:
        await _create(client, MULTI_KUEUE_CLUSTER, membership.make_member(name))
    await _add_to_config(client, config_name, name)
    if check is None:
        await _create(client, ADMISSION_CHECK, membership.make_admission_check())
    for queue in queues:
        await _add_check(client, queue)


async def _create(client: Client, kind: Kind[Any], document: dict[str, Any]) -> None:
    await client.create(kind.seen_as(dict), document)
    click.echo(f"{kind.kind.lower()}/{document['metadata']['name']} created")


async def _put_secret(client: Client, document: dict[str, Any], namespace: str) -> None:
    """Create the Secret with the kubeconfig, or replace its content if that differs; print the change.

    Raises `ApiError`.
    """
    name, kind = document["metadata"]["name"], SECRET.seen_as(dict)
    try:
        await client.create(kind, document, namespace)
        outcome = "created"
    except ApiError as error:
        if not is_refusal(error, "AlreadyExists"):
            raise
        before: dict[str, Any] = await client.get(kind, name, namespace)
        if before.get("data") == document["data"]:
            return
        await client.patch(kind, name, {"data": document["data"]}, namespace)
        outcome = "changed"
    click.echo(f"secret/{name} (namespace {namespace}) {outcome}")


async def _add_to_config(client: Client, config_name: str, name: str) -> None:
    """Add the worker cluster to the MultiKueueConfig, or create one with it; print the change.

    Do nothing if the MultiKueueConfig contains the cluster. Raises `ApiError`, and `click.ClickException` if other
    clients changed the MultiKueueConfig at each attempt.
    """
    for _ in range(_ATTEMPTS):
        config = await client.find(MULTI_KUEUE_CONFIG, config_name)
        clusters = membership.with_cluster(config, name)
        if clusters is None:
            return None
        with ignoring("Conflict", "AlreadyExists"):
            if config is None:
                document = {"metadata": {"name": config_name}, "spec": {"clusters": clusters}}
                return await _create(client, MULTI_KUEUE_CONFIG, document)
            await client.patch_object(MULTI_KUEUE_CONFIG, config, {"spec": {"clusters": clusters}})
            return click.echo(f"multikueueconfig/{config_name} has cluster {name}")
    raise click.ClickException(f"MultiKueueConfig {config_name} changes all the time: try again")


async def _add_check(client: Client, name: str) -> None:
    """Add the admission check to a ClusterQueue, so that each of its jobs goes to a worker cluster; print the change.

    Do nothing if the ClusterQueue has the check. Raises `ApiError`, and `click.ClickException` if other clients changed
    the ClusterQueue at each attempt.
    """
    for _ in range(_ATTEMPTS):
        queue: ClusterQueue = await client.get(CLUSTER_QUEUE, name)
        patch = membership.with_check(queue)
        if patch is None:
            return None
        with ignoring("Conflict"):
            await client.patch_object(CLUSTER_QUEUE, queue, patch)
            return click.echo(f"clusterqueue/{name} sends its jobs to one of the clusters")
    raise click.ClickException(f"ClusterQueue {name} changes all the time: try again")


async def wait_until_connected(client: Client, name: str, clock: Clock, seconds: float) -> None:
    """Wait until the manager has connected to the worker cluster.

    Raises `click.ClickException`, with the reason, if the manager has not connected after `seconds`.
    """
    condition: Condition | None = None

    async def look() -> Condition | None:
        nonlocal condition
        cluster: MultiKueueCluster = await client.get(MULTI_KUEUE_CLUSTER, name)
        condition = find(cluster.status.conditions, ACTIVE)
        return condition if condition is not None and condition.status == "True" else None

    if await wait_for_result(look, clock, seconds) is not None:
        say(f"cluster {name} is connected")
        return
    if condition is None:
        raise click.ClickException(
            f"no manager has connected to cluster {name} within {seconds:g} s: does MultiKueue run in the manager?"
        )
    raise click.ClickException(
        f"cluster {name} is not connected ({condition.reason}): {condition.message}\n"
        f"The manager continues to try; see: muster cluster list, or remove the cluster: muster cluster leave {name}"
    )
