"""`muster top`: show requests, quota and usage."""

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import click

from muster.actions.server.session import Session, Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import parse_job_name
from muster.cli.session import ask, connect, run, target_options

Picture: TypeAlias = Callable[[Session, Callable[[str], None]], Awaitable[str]]
"""Makes the text to show; the callable says what is not shown."""


@click.command(
    epilog=format_examples("muster top", "muster top train      # each worker of a job", "muster top -w"),
)
@click.argument("job", required=False, type=parse_job_name, metavar="[JOB]", shell_complete=names.complete_jobs)
@click.option(
    "-w", "--watch", is_flag=True, help="Show the tables on the whole terminal, and update them at every change."
)
@target_options
def command(watch: bool, job: str | None, **options: Any) -> None:
    """Show the resources and requests of each node, then the quotas, then the jobs with the largest requests.

    With JOB, show for each of its workers what the worker uses and requests, and its limits.
    """
    make_picture = partial(_make_workers_picture, job=job) if job else _make_picture
    target = Target.of(options)
    if watch:
        run(_watch(target, make_picture))
    else:
        ask(_print_picture(target, make_picture))


async def _print_picture(target: Target, make_picture: Picture) -> None:
    from muster.cli.terminal.output import say

    async with connect(target) as session:
        click.echo(await make_picture(session, say))


async def _watch(target: Target, make_picture: Picture) -> None:
    from muster.api.core import NODE, POD
    from muster.api.kueue import CLUSTER_QUEUE
    from muster.cli.actions.watching import show
    from muster.cli.terminal.screen import can_show

    if not sys.stdout.isatty():
        raise click.UsageError("--watch draws on a terminal, and the output is none")
    if not can_show():
        fault = "is dumb" if os.environ.get("TERM") else "is not set"
        raise click.UsageError(f"--watch cannot draw on this terminal: TERM {fault}")
    await show(target, "muster top", (NODE, POD, CLUSTER_QUEUE), make_picture, everywhere=True)


async def _make_workers_picture(session: Session, say: Callable[[str], None], *, job: str) -> str:
    from muster.actions.jobs.lookup import explain_missing_job
    from muster.api.pods import is_finished, job_of
    from muster.insight.reader.listing.access import list_all
    from muster.insight.reader.listing.views import POD_DEMANDS
    from muster.insight.reader.usage import read_usage
    from muster.insight.text import format_table
    from muster.insight.usage import make_worker_table, usage_by_pod

    listed = await list_all(session.client, POD_DEMANDS, session.namespace)
    pods = [pod for pod in listed if job_of(pod)[1] == job]
    if not pods:
        raise click.ClickException(await explain_missing_job(session.client, job, session.namespace))
    usage = usage_by_pod(await read_usage(session.client, session.namespace, say))
    header, rows = make_worker_table([pod for pod in pods if not is_finished(pod)], usage)
    return format_table(header, rows) if rows else f"no worker of {job} runs"


async def _make_picture(session: Session, say: Callable[[str], None]) -> str:
    """Return the tables of nodes, GPUs, quotas, worker clusters and users. An empty table is left out.

    say: prints a line about a list that the user may not read.
    """
    from muster.api.kueue import CLUSTER_QUEUE
    from muster.api.ours.gpus import is_gpu
    from muster.insight.reader.clusters import clusters_of
    from muster.insight.reader.listing.access import list_or_say
    from muster.insight.reader.listing.views import NODE_LINES
    from muster.insight.reader.usage import read_usage
    from muster.insight.usage import usage_by_job

    nodes = await list_or_say(session.client, NODE_LINES, "", say, "nodes")
    queues = await list_or_say(session.client, CLUSTER_QUEUE, "", say, "quotas")
    clusters = await clusters_of(session.client)
    demands = await _read_demands(session, nodes, say)
    used, users, where = demands.by_node, demands.by_job, demands.namespace
    usage = usage_by_job(await read_usage(session.client, where, say) if users else ())
    here = {r for node in nodes for r in node.status.allocatable} if nodes is not None else set().union(*used.values())
    gpus = sorted(filter(is_gpu, here))
    resources = [r for r in ("cpu", "memory", *gpus, "pods") if r in here]
    tables = [
        _make_nodes_table(nodes, None if where else used, resources) if nodes is not None else "",
        demands.gpus_table,
        _make_quotas_table(queues) if queues else "",
        _make_clusters_table(clusters) if clusters else "",
        _make_users_table(users, resources, usage) if users else "",
    ]
    return "\n\n".join(filter(None, tables))


class _Demands(NamedTuple):
    """The requests of the visible pods. They replace the pods themselves, of which there may be ten thousand.

    by_node: the requests on each node.
    by_job: the requests by namespace, job, owner and queue.
    namespace: the namespace of the pods; "" for all.
    """

    by_node: Any
    by_job: dict[tuple[str, str, str, str], Counter[str]]
    gpus_table: str
    namespace: str


async def _read_demands(session: Session, nodes: Any, say: Callable[[str], None]) -> _Demands:
    """Return the requests of the visible pods that have a node and have not finished."""
    from muster.api.pods import is_finished, job_of
    from muster.insight.history.build import owner_of
    from muster.insight.nodes import request_of, sum_pods
    from muster.insight.quota.state import find_quota_state, index_by_owner
    from muster.insight.reader.listing.access import list_or_none
    from muster.insight.reader.listing.views import POD_DEMANDS, WORKLOAD_LINES
    from muster.insight.reader.visible import list_visible

    pods, where = await list_visible(session.client, POD_DEMANDS, session.namespace, say, "jobs")
    workloads = index_by_owner(await list_or_none(session.client, WORKLOAD_LINES, where) or [])
    users: dict[tuple[str, str, str, str], Counter[str]] = defaultdict(Counter)
    for pod in pods:
        if not pod.spec.node_name or is_finished(pod):
            continue
        uid, name = job_of(pod)
        workload = workloads.get(uid)
        queue = find_quota_state(workload).cluster_queue if workload is not None else ""
        owner = owner_of((workload if workload is not None else pod).metadata)
        users[pod.metadata.namespace, name, owner, queue or "-"].update(request_of(pod))
    gpus_table = _make_gpus_table(nodes, pods, shared=bool(where)) if nodes is not None else ""
    return _Demands(sum_pods(pods)[0], users, gpus_table, where)


def _make_nodes_table(nodes: Any, used: Any, resources: list[str]) -> str:
    """Return the table of nodes.

    used: the requests of pods, by node; None if there may be pods that the user may not see.
    resources: the columns.
    """
    from muster.api.values.quantity import parse_amount
    from muster.insight.nodes import describe_health
    from muster.insight.text import format_table

    rows = []
    for node in sorted(nodes, key=lambda node: node.metadata.name):
        has = {r: parse_amount(r, q) for r, q in node.status.allocatable.items()}
        tally = used.get(node.metadata.name, Counter()) if used is not None else None
        cells = [_format_share(r, None if tally is None else tally[r], has.get(r, 0)) for r in resources]
        rows.append([node.metadata.name, describe_health(node), *cells])
    return format_table(["NODE", "STATE", *(r.upper() for r in resources)], rows)


def _make_gpus_table(nodes: Any, pods: Any, *, shared: bool) -> str:
    from muster.insight.gpus import HEADER, make_gpu_rows
    from muster.insight.text import format_table

    rows = make_gpu_rows(nodes, pods, shared=shared)
    return format_table(list(HEADER), [row.cells() for row in rows]) if rows else ""


def _make_users_table(users: Any, resources: list[str], usage: Any) -> str:
    from muster.api.ours.gpus import is_gpu
    from muster.insight.text import format_owner, format_quantity, format_table
    from muster.insight.usage import GPU_HEADER, format_cpus, format_gpus, format_memory, knows_gpus

    has_gpus = knows_gpus(usage.values())
    order = [*filter(is_gpu, resources), "cpu", "pods"]
    most = sorted(users.items(), key=lambda item: [-item[1][r] for r in order])
    lines = []
    for who, tally in most:
        used = usage.get(who[:2])
        requested = [format_quantity(r, tally[r]) for r in resources]
        namespace, name, owner, queue = who
        lines.append([namespace, name, format_owner(owner) or "-", queue, *requested])
        lines[-1] += [format_cpus(used), format_memory(used), *(format_gpus(used) if has_gpus else ())]
    header = ["NAMESPACE", "NAME", "OWNER", "CLUSTERQUEUE", *(r.upper() for r in resources), "CPU USED", "MEMORY USED"]
    return format_table([*header, *(GPU_HEADER if has_gpus else ())], lines)


def _make_quotas_table(queues: Any) -> str:
    from muster.insight.quota.queues import format_usage, list_resources, make_cluster_queue_row
    from muster.insight.text import format_table

    rows = [make_cluster_queue_row(queue) for queue in queues]
    resources = list_resources(rows)
    header = ["CLUSTERQUEUE", "COHORT", "STATE", "PENDING", "ADMITTED", *(r.upper() for r in resources)]
    cells = [
        [row["name"], row["cohort"] or "-", row["state"], str(row["pending"]), str(row["admitted"])]
        + [format_usage(row, resource) for resource in resources]
        for row in rows
    ]
    return format_table(header, cells)


def _make_clusters_table(clusters: Any) -> str:
    from muster.cli.terminal.output import terminal_width
    from muster.insight.clusters import make_table
    from muster.insight.text import format_table
    from muster.runtime.realclock import RealClock

    header, lines = make_table(clusters, RealClock().now())
    return format_table(header, lines, width=terminal_width())


def _format_share(resource: str, used: int | None, has: int) -> str:
    from muster.insight.text import format_quantity

    return f"{'-' if used is None else format_quantity(resource, used)}/{format_quantity(resource, has)}"
