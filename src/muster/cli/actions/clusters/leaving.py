"""Remove a worker cluster from a manager, after its jobs have stopped, so that no job runs in two places.

The first step keeps new jobs from the cluster, and the last step deletes the MultiKueueCluster. After an interruption
the command can be repeated, and continues.
"""

from collections.abc import Collection, Sequence
from typing import Any

import click
from msgspec.structs import replace

from muster.actions.following.elsewhere import OutOfReachError, Reach
from muster.actions.waiting import wait_for_result
from muster.api.conditions import is_true
from muster.api.core import SECRET
from muster.api.kinds import Kind
from muster.api.kueue import (
    ADMISSION_CHECK,
    CHECK_RETRY,
    CLUSTER_QUEUE,
    MULTI_KUEUE_CLUSTER,
    MULTI_KUEUE_CONFIG,
    WORKLOAD,
    MultiKueueCluster,
    Workload,
)
from muster.api.kueue.names import ACTIVE, EVICTED, FINISHED, MULTI_KUEUE_CONTROLLER, MULTI_KUEUE_ORIGIN_LABEL
from muster.api.managed.dispatch import home_of
from muster.api.meta import Object
from muster.api.status import ApiError
from muster.cli.actions.clusters import membership
from muster.cli.actions.clusters.membership import CHECK, MembershipError
from muster.cli.names.discovery import Discovery
from muster.cli.terminal.output import say
from muster.insight.quota.state import display_name
from muster.insight.reader.clusters import find_engine_namespace, read_origin
from muster.multicluster.dispatch.clone import is_ours
from muster.multicluster.mirrors.table import mirror_of
from muster.multicluster.removal import remove_clone, remove_job
from muster.runtime.client import Client
from muster.runtime.objects import key_of, meta_of
from muster.runtime.realclock import Clock
from muster.runtime.refusals import ignoring, is_refusal
from muster.runtime.transport import TransportError

_ATTEMPTS = 10  # for objects that other clients change, too
STOP_SECONDS = 120.0
# The manager may still write a decision that it made before it observed that the cluster leaves.
SETTLED_SECONDS = 1.0


async def leave(client: Client, name: str, clock: Clock, reach: Reach, *, force: bool) -> None:
    """Remove a worker cluster that runs no jobs. With `force`, first requeue its jobs so that other clusters run them.

    Raises `ApiError`, `click.ClickException`.
    """
    cluster = await _get_cluster(client, name)
    if not force:
        _refuse_running(name, await _list_running(client, name))
    config_name = await _find_config_name(client)
    await _remove_from_config(client, config_name, name)
    await clock.sleep(SETTLED_SECONDS)
    running = await _list_running(client, name)
    if not force:
        _refuse_running(name, running)
    elif running and not is_true(cluster.status.conditions, ACTIVE):
        jobs = ", ".join(_list_titles(running))
        say(f"cluster {name} cannot be reached: these jobs continue there, and also restart elsewhere: {jobs}")
    elif running:
        await _stop_jobs(client, name, running, clock)
    await _delete_leftovers(client, name, reach)
    await _delete_check(client, config_name)
    await _delete_cluster(client, name, cluster)


def _refuse_running(name: str, running: Sequence[Workload]) -> None:
    if running:
        raise click.ClickException(
            f"in cluster {name} run: {', '.join(_list_titles(running))}; "
            "let them end, or add --force: they stop, and wait for another cluster"
        )


async def _find_config_name(client: Client) -> str:
    try:
        check = await client.find(ADMISSION_CHECK, CHECK)
        return membership.config_name(check)
    except MembershipError:
        return CHECK


async def _delete_leftovers(client: Client, name: str, reach: Reach) -> None:
    """Delete the copies of waiting and ended jobs in the worker cluster, because no client would delete them later.

    If the cluster cannot be reached, print the command that deletes them there.
    """
    mark = await read_origin(client)
    label = f"{MULTI_KUEUE_ORIGIN_LABEL}={mark}"
    workloads = (await client.list(WORKLOAD)).items
    try:
        async with reach(name) as there:
            here, discovery = {key_of(one): one for one in workloads}, Discovery(client)
            for clone in (await there.list(WORKLOAD, labels=label)).items:
                if (workload := here.get(key_of(clone))) is not None:
                    await _remove_copy(there, clone, mark, await _find_kinds(discovery, workload))
    except (ApiError, OutOfReachError, TransportError) as error:
        sent = [one for one in workloads if name in (*one.status.nominated_cluster_names, one.status.cluster_name)]
        if sent:
            kinds = [kind for one in sent for kind in await _find_kinds(Discovery(client), one)]
            resources = ",".join(dict.fromkeys(kind.resource for kind in (*kinds, WORKLOAD)))
            command = f"kubectl delete {resources} --all-namespaces --selector {label}"
            say(f"the remaining objects stay in cluster {name} ({error}); delete them there with: {command}")


async def _find_kinds(discovery: Discovery, workload: Workload) -> list[Kind[Any]]:
    """Return the kinds of the jobs that own a workload, as the worker cluster serves them.

    A kind that only the Configuration names is looked up on the manager's server, which also serves it.
    """
    named = dict.fromkeys((owner.api_version, owner.kind) for owner in workload.metadata.owner_references)
    mirrors = {one: mirror_of(*one) for one in named}
    return [mirror.kind if mirror is not None else await discovery.kind(*one) for one, mirror in mirrors.items()]


async def _remove_copy(there: Client, clone: Workload, mark: str, kinds: Sequence[Kind[Any]]) -> None:
    """Delete the copy of a workload in the worker cluster and the copy of its job, if this manager made them."""
    meta = clone.metadata
    owned = [(kind, owner.name) for owner in meta.owner_references for kind in kinds if kind.is_of(owner)]
    for kind, name in owned:
        job = await there.find(kind.seen_as(Object), name, meta.namespace)
        if job is not None and is_ours(job.metadata, mark):
            await remove_job(there, kind, job)
    with ignoring("Conflict"):
        await remove_clone(there, clone)


async def _get_cluster(client: Client, name: str) -> MultiKueueCluster:
    try:
        return await client.get(MULTI_KUEUE_CLUSTER, name)
    except ApiError as error:
        if not is_refusal(error, "NotFound"):
            raise
        known = [one.metadata.name for one in (await client.list(MULTI_KUEUE_CLUSTER)).items]
        existing = f"there are: {', '.join(sorted(known))}" if known else "there is none"
        raise click.ClickException(f"there is no cluster {name}; {existing}") from None


async def _list_running(client: Client, name: str) -> list[Workload]:
    """Return the manager's Workloads that run, or may run, in the worker cluster with this name."""
    return [one for one in (await client.list(WORKLOAD)).items if _runs_in(one, name)]


def _runs_in(workload: Workload, name: str) -> bool:
    """Return whether a Workload runs in a worker cluster.

    The status is read, too, because Kueue as manager records the cluster only there.
    """
    if home := home_of(workload.metadata):
        return home == name
    return workload.status.cluster_name == name and not is_true(workload.status.conditions, FINISHED)


def _list_titles(workloads: Sequence[Workload]) -> list[str]:
    return sorted(display_name(workload.metadata, "") for workload in workloads)


async def _stop_jobs(client: Client, name: str, running: Sequence[Workload], clock: Clock) -> None:
    """Requeue the jobs of a cluster, print their names, and wait until they have stopped there.

    Raises `click.ClickException` if that takes too long.
    """
    say(f"stopping in cluster {name}: {', '.join(_list_titles(running))}")
    checks = (await client.list(ADMISSION_CHECK)).items
    names = {check.metadata.name for check in checks if check.spec.controller_name == MULTI_KUEUE_CONTROLLER}

    async def look() -> bool | None:
        left = await _list_running(client, name)
        for workload in left:
            await _requeue(client, workload, names, f"cluster {name} leaves", clock)
        return None if left else True

    if await wait_for_result(look, clock, STOP_SECONDS) is None:
        left = ", ".join(_list_titles(await _list_running(client, name)))
        raise click.ClickException(
            f"after {STOP_SECONDS:g} s these jobs still run in cluster {name}: {left}; try again"
        )


async def _requeue(client: Client, workload: Workload, names: Collection[str], why: str, clock: Clock) -> None:
    """Set the state of the Workload's admission check to Retry, so that the engine evicts and requeues the Workload.

    Do nothing if the Workload has no such check, is being evicted or has finished.
    """
    status = workload.status
    mine = [check for check in status.admission_checks if check.name in names and check.state != CHECK_RETRY]
    if not mine or is_true(status.conditions, EVICTED) or is_true(status.conditions, FINISHED):
        return
    now = clock.now().replace(microsecond=0)
    checks = [
        replace(check, state=CHECK_RETRY, message=why, last_transition_time=now) if check in mine else check
        for check in status.admission_checks
    ]
    with ignoring("NotFound", "Conflict"):
        patch = {"status": {"admissionChecks": checks}}
        await client.patch_object(WORKLOAD, workload, patch, subresource="status")


async def _delete_cluster(client: Client, name: str, cluster: MultiKueueCluster) -> None:
    """Delete the manager's objects for a worker cluster, the MultiKueueCluster last; print each change."""
    if _has_its_secret(name, cluster):
        namespace = await find_engine_namespace(client)
        secret = await client.find(SECRET.seen_as(Object), membership.secret_name(name), namespace)
        if secret is not None:
            with ignoring("NotFound"):
                await client.delete(SECRET, meta_of(secret).name, namespace)
                click.echo(f"secret/{meta_of(secret).name} (namespace {namespace}) deleted")
    with ignoring("NotFound"):
        await client.delete(MULTI_KUEUE_CLUSTER, name)
        click.echo(f"multikueuecluster/{name} deleted")


def _has_its_secret(name: str, cluster: MultiKueueCluster) -> bool:
    try:
        membership.require_free(name, cluster)
    except MembershipError:
        return False
    return True


async def _remove_from_config(client: Client, config_name: str, name: str) -> None:
    """Remove the worker cluster from the MultiKueueConfig, or delete the MultiKueueConfig with its last cluster.

    The change is printed. If the MultiKueueConfig does not contain the cluster, nothing changes. Raises `ApiError`, and
    `click.ClickException` if other clients changed the MultiKueueConfig at each attempt.
    """
    for _ in range(_ATTEMPTS):
        config = await client.find(MULTI_KUEUE_CONFIG, config_name)
        clusters = membership.remove_cluster_name(config, name)
        if config is None or clusters is None:
            return None
        with ignoring("Conflict", "NotFound"):
            if clusters:
                await client.patch_object(MULTI_KUEUE_CONFIG, config, {"spec": {"clusters": clusters}})
                return click.echo(f"multikueueconfig/{config_name} does not have cluster {name} any more")
            version = config.metadata.resource_version
            await client.delete(MULTI_KUEUE_CONFIG, config_name, resource_version=version)
            return click.echo(f"multikueueconfig/{config_name} deleted: there is no other cluster")
    raise click.ClickException(f"MultiKueueConfig {config_name} changes all the time: try again")


async def _delete_check(client: Client, config_name: str) -> None:
    """Delete the admission check after the last worker cluster was removed.

    If ClusterQueues still name the check, it stays, and a remark says that their jobs wait.
    """
    check = await client.find(ADMISSION_CHECK, CHECK)
    if check is None or check.spec.controller_name != MULTI_KUEUE_CONTROLLER:
        return
    if await client.find(MULTI_KUEUE_CONFIG, config_name) is not None:
        return
    waiting = [queue.metadata.name for queue in (await client.list(CLUSTER_QUEUE)).items if membership.has_check(queue)]
    if waiting:
        say(f"nothing starts from these ClusterQueues until a cluster joins: {', '.join(sorted(waiting))}")
        return
    with ignoring("NotFound"):
        await client.delete(ADMISSION_CHECK, CHECK)
        click.echo(f"admissioncheck/{CHECK} deleted: there is no other cluster")
