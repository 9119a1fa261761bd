"""`muster top`: the nodes, and who uses what."""

from collections import Counter, defaultdict
from typing import Any

import click

from muster.cli.names.examples import examples
from muster.cli.session import Target, connect, run, target_options

_SHOWN = ("cpu", "memory", "nvidia.com/gpu", "pods")


@click.command(
    epilog=examples("muster top"),
)
@target_options
def command(**options: Any) -> None:
    """Show what every node has and what is asked of it, then the quotas, then the jobs that ask for most."""
    run(_top(Target.of(options)))


async def _top(target: Target) -> None:
    from muster.api.core import NODE, POD
    from muster.api.kueue import CLUSTER_QUEUE, WORKLOAD
    from muster.api.pods import is_finished, pod_requests
    from muster.api.quantity import amount
    from muster.insight.quotastate import by_owner, quota_state
    from muster.insight.reader.queues import list_or_none
    from muster.insight.record import job_of
    from muster.insight.text import quantity, table

    async with connect(target) as session:
        nodes = (await session.client.list(NODE)).items
        queues = await list_or_none(session.client, CLUSTER_QUEUE) or []
        workloads = by_owner(await list_or_none(session.client, WORKLOAD) or [])
        pods = [p for p in (await session.client.list(POD)).items if p.spec.node_name and not is_finished(p)]
    used: dict[str, Counter[str]] = defaultdict(Counter)
    users: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for pod in pods:
        uid, name = job_of(pod)
        workload = workloads.get(uid)
        queue = quota_state(workload).cluster_queue if workload is not None else ""
        for tally in (used[pod.spec.node_name], users[pod.metadata.namespace, name, queue or "-"]):
            tally.update(Counter(pod_requests(pod.spec)) + Counter(pods=1))
    resources = [r for r in _SHOWN if any(r in node.status.allocatable for node in nodes)]
    rows = []
    for node in sorted(nodes, key=lambda node: node.metadata.name):
        has = {r: amount(r, q) for r, q in node.status.allocatable.items()}
        cells = [_share(r, used[node.metadata.name][r], has.get(r, 0)) for r in resources]
        rows.append([node.metadata.name, _health(node), *cells])
    click.echo(table(["NODE", "STATE", *(r.upper() for r in resources)], rows))
    if queues:
        click.echo()
        _print_quotas(queues)
    if users:
        click.echo()
        most = sorted(users.items(), key=lambda item: [-item[1][r] for r in ("nvidia.com/gpu", "cpu", "pods")])
        lines = [[*who, *(quantity(r, tally[r]) for r in resources)] for who, tally in most]
        click.echo(table(["NAMESPACE", "NAME", "CLUSTERQUEUE", *(r.upper() for r in resources)], lines))


def _print_quotas(queues: Any) -> None:
    from muster.insight.quotas import cluster_queue_row, resources_of, usage_cell
    from muster.insight.text import table

    rows = [cluster_queue_row(queue) for queue in queues]
    resources = resources_of(rows)
    header = ["CLUSTERQUEUE", "COHORT", "PENDING", "ADMITTED", *(r.upper() for r in resources)]
    cells = [
        [row["name"], row["cohort"] or "-", str(row["pending"]), str(row["admitted"])]
        + [usage_cell(row, resource) for resource in resources]
        for row in rows
    ]
    click.echo(table(header, cells))


def _health(node: Any) -> str:
    from muster.api.nodes import is_ready

    ready = is_ready(node)
    return ("Ready" if ready else "NotReady") + (",Cordoned" if node.spec.unschedulable else "")


def _share(resource: str, used: int, has: int) -> str:
    from muster.insight.text import quantity

    return f"{quantity(resource, used)}/{quantity(resource, has)}"
