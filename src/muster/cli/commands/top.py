"""`muster top`: the nodes, and who uses what."""

from collections import Counter, defaultdict
from typing import Any

import click

from muster.cli.session import Target, connect, run, target_options

_SHOWN = ("cpu", "memory", "nvidia.com/gpu", "pods")


@click.command()
@target_options
def command(**options: Any) -> None:
    """Show what every node has and what is asked of it, then the jobs that ask for most."""
    run(_top(Target.of(options)))


async def _top(target: Target) -> None:
    from muster.api.core import NODE, POD
    from muster.api.pods import controller_of, is_finished, pod_requests
    from muster.api.quantity import amount
    from muster.cli.output import table

    async with connect(target) as session:
        nodes = (await session.client.list(NODE)).items
        pods = [p for p in (await session.client.list(POD)).items if p.spec.node_name and not is_finished(p)]
    used: dict[str, Counter[str]] = defaultdict(Counter)
    users: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for pod in pods:
        owner = controller_of(pod) or pod.metadata
        for tally in (used[pod.spec.node_name], users[pod.metadata.namespace, owner.name]):
            tally.update(Counter(pod_requests(pod.spec)) + Counter(pods=1))
    resources = [r for r in _SHOWN if any(r in node.status.allocatable for node in nodes)]
    rows = []
    for node in sorted(nodes, key=lambda node: node.metadata.name):
        has = {r: amount(r, q) for r, q in node.status.allocatable.items()}
        cells = [_share(r, used[node.metadata.name][r], has.get(r, 0)) for r in resources]
        rows.append([node.metadata.name, _health(node), *cells])
    click.echo(table(["NODE", "STATE", *(r.upper() for r in resources)], rows))
    if users:
        click.echo()
        most = sorted(users.items(), key=lambda item: [-item[1][r] for r in ("nvidia.com/gpu", "cpu", "pods")])
        lines = [[namespace, name, *(_amount(r, tally[r]) for r in resources)] for (namespace, name), tally in most]
        click.echo(table(["NAMESPACE", "NAME", *(r.upper() for r in resources)], lines))


def _health(node: Any) -> str:
    ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
    return ("Ready" if ready else "NotReady") + (",Cordoned" if node.spec.unschedulable else "")


def _share(resource: str, used: int, has: int) -> str:
    return f"{_amount(resource, used)}/{_amount(resource, has)}"


def _amount(resource: str, value: int) -> str:
    if resource == "memory":
        return f"{value / 2**30:.1f}Gi"
    from muster.api.quantity import format_amount

    return format_amount(resource, value)
