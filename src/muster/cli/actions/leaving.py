"""Takes a worker cluster from a manager: what runs there is stopped first, so that it never runs in two places.

Nothing new goes there from the first step on, and the cluster itself is forgotten in the last one: a command that was
cut short is given again, and goes on.
"""

from collections.abc import Collection, Sequence
from typing import Any

import click
from msgspec.structs import replace

from muster.actions.following.elsewhere import OutOfReachError, Reach
from muster.actions.waiting import until
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
from muster.cli.actions import membership
from muster.cli.actions.membership import CHECK, MembershipError
from muster.cli.names.discovery import Discovery
from muster.cli.terminal.output import say
from muster.insight.quotastate import display_name
from muster.insight.reader.clusters import engine_namespace, origin
from muster.multicluster.dispatch.clone import is_ours
from muster.multicluster.mirrors.table import mirror_of
from muster.multicluster.removal import remove_clone, remove_job
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.objects import key_of, meta_of
from muster.runtime.refusals import ignoring, is_refusal
from muster.runtime.transport import TransportError

_ATTEMPTS = 10  # where others change the same objects
STOP_SECONDS = 120.0
# The manager may be about to write what it has decided before it heard that the cluster is out.
SETTLED_SECONDS = 1.0


async def leave(client: Client, name: str, clock: Clock, reach: Reach, *, force: bool) -> None:
    """Forget a cluster where no job runs; with `force`, stop those that do, and let them wait for another.

    Raises `ApiError`, `click.ClickException`.
    """
    cluster = await _named(client, name)
    if not force:
        _refuse(name, await _running(client, name))
    config_name = await _config_name(client)
    await _drop(client, config_name, name)
    await clock.sleep(SETTLED_SECONDS)
    running = await _running(client, name)
    if not force:
        _refuse(name, running)
    elif running and not is_true(cluster.status.conditions, ACTIVE):
        jobs = ", ".join(_called(running))
        say(f"cluster {name} cannot be reached: these run on there, and start again elsewhere meanwhile: {jobs}")
    elif running:
        await _stop(client, name, running, clock)
    await _sweep(client, name, reach)
    await _close(client, config_name)
    await _forget(client, name, cluster)


def _refuse(name: str, running: Sequence[Workload]) -> None:
    if running:
        raise click.ClickException(
            f"in cluster {name} run: {', '.join(_called(running))}; "
            "let them end, or stop them there with --force, and they wait for another"
        )


async def _config_name(client: Client) -> str:
    try:
        check = await client.find(ADMISSION_CHECK, CHECK)
        return membership.config_name(check)
    except MembershipError:
        return CHECK


async def _sweep(client: Client, name: str, reach: Reach) -> None:
    """What waits there, and what has ended there, goes: nothing would remove it later."""
    mark = await origin(client)
    label = f"{MULTI_KUEUE_ORIGIN_LABEL}={mark}"
    workloads = (await client.list(WORKLOAD)).items
    try:
        async with reach(name) as there:
            here, discovery = {key_of(one): one for one in workloads}, Discovery(client)
            for clone in (await there.list(WORKLOAD, labels=label)).items:
                if (workload := here.get(key_of(clone))) is not None:
                    await _remove(there, clone, mark, await _kinds(discovery, workload))
    except (ApiError, OutOfReachError, TransportError) as error:
        sent = [one for one in workloads if name in (*one.status.nominated_cluster_names, one.status.cluster_name)]
        if sent:
            kinds = [kind for one in sent for kind in await _kinds(Discovery(client), one)]
            resources = ",".join(dict.fromkeys(kind.resource for kind in (*kinds, WORKLOAD)))
            command = f"kubectl delete {resources} --all-namespaces --selector {label}"
            say(f"what is left in cluster {name} stays there ({error}); there, remove it with: {command}")


async def _kinds(discovery: Discovery, workload: Workload) -> list[Kind[Any]]:
    """Of what a workload was made for. A kind that the Configuration names is one that the server here knows."""
    named = dict.fromkeys((owner.api_version, owner.kind) for owner in workload.metadata.owner_references)
    mirrors = {one: mirror_of(*one) for one in named}
    return [mirror.kind if mirror is not None else await discovery.kind(*one) for one, mirror in mirrors.items()]


async def _remove(there: Client, clone: Workload, mark: str, kinds: Sequence[Kind[Any]]) -> None:
    """A clone, and what it was made for."""
    meta = clone.metadata
    owned = [(kind, owner.name) for owner in meta.owner_references for kind in kinds if kind.is_of(owner)]
    for kind, name in owned:
        job = await there.find(kind.seen_as(Object), name, meta.namespace)
        if job is not None and is_ours(job.metadata, mark):
            await remove_job(there, kind, job)
    with ignoring("Conflict"):
        await remove_clone(there, clone)


async def _named(client: Client, name: str) -> MultiKueueCluster:
    try:
        return await client.get(MULTI_KUEUE_CLUSTER, name)
    except ApiError as error:
        if not is_refusal(error, "NotFound"):
            raise
        known = [one.metadata.name for one in (await client.list(MULTI_KUEUE_CLUSTER)).items]
        there = f"there are: {', '.join(sorted(known))}" if known else "there is none"
        raise click.ClickException(f"there is no cluster {name}; {there}") from None


async def _running(client: Client, name: str) -> list[Workload]:
    """The Workloads that run in a cluster, or may."""
    return [one for one in (await client.list(WORKLOAD)).items if _runs_in(one, name)]


def _runs_in(workload: Workload, name: str) -> bool:
    """Kueue as manager stores no home."""
    if home := home_of(workload.metadata):
        return home == name
    return workload.status.cluster_name == name and not is_true(workload.status.conditions, FINISHED)


def _called(workloads: Sequence[Workload]) -> list[str]:
    return sorted(display_name(workload.metadata, "") for workload in workloads)


async def _stop(client: Client, name: str, running: Sequence[Workload], clock: Clock) -> None:
    """Send back what runs there until it has stopped. Raises `click.ClickException` if that takes too long."""
    say(f"stopping in cluster {name}: {', '.join(_called(running))}")
    checks = (await client.list(ADMISSION_CHECK)).items
    names = {check.metadata.name for check in checks if check.spec.controller_name == MULTI_KUEUE_CONTROLLER}

    async def look() -> bool | None:
        left = await _running(client, name)
        for workload in left:
            await _send_back(client, workload, names, f"cluster {name} leaves", clock)
        return None if left else True

    if await until(look, clock, STOP_SECONDS) is None:
        left = ", ".join(_called(await _running(client, name)))
        raise click.ClickException(f"after {STOP_SECONDS:g} s there still run in cluster {name}: {left}; try again")


async def _send_back(client: Client, workload: Workload, names: Collection[str], why: str, clock: Clock) -> None:
    """The check wants it to stop, and to try again."""
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


async def _forget(client: Client, name: str, cluster: MultiKueueCluster) -> None:
    """The cluster is the last to go; what was done is said."""
    if _has_its_secret(name, cluster):
        namespace = await engine_namespace(client)
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


async def _drop(client: Client, config_name: str, name: str) -> None:
    """The configuration does not name the cluster; without any there is none."""
    for _ in range(_ATTEMPTS):
        config = await client.find(MULTI_KUEUE_CONFIG, config_name)
        clusters = membership.without_cluster(config, name)
        if config is None or clusters is None:
            return None
        with ignoring("Conflict", "NotFound"):
            if clusters:
                await client.patch_object(MULTI_KUEUE_CONFIG, config, {"spec": {"clusters": clusters}})
                return click.echo(f"multikueueconfig/{config_name} does not have cluster {name} any more")
            version = config.metadata.resource_version
            await client.delete(MULTI_KUEUE_CONFIG, config_name, resource_version=version)
            return click.echo(f"multikueueconfig/{config_name} deleted: there is no other cluster")
    raise click.ClickException(f"MultiKueueConfig {config_name} is changed all the time: try again")


async def _close(client: Client, config_name: str) -> None:
    """That was the last one. While queues name the check it stays, and what is in them waits for a cluster."""
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
