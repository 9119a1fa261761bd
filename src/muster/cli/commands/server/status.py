"""`muster status`: check the health of the cluster."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from muster.actions.server.home import Home
from muster.actions.server.session import Target, has_cluster, names_another
from muster.api.ours.release import VERSION
from muster.cli.names.examples import format_examples
from muster.cli.session import ask, connect, target_options

if TYPE_CHECKING:
    from muster.api.core import Node

# What a process node names before its release.
_RUNTIME = "process://"
# The problems that have a line of their own.
_IN_LINES = ("engine", "nodes")


@click.command(
    epilog=format_examples("muster status"),
)
@target_options
def command(**options: Any) -> None:
    """Show whether the cluster runs, whether its nodes are ready, and how many jobs are in each state.

    Each line that begins with `mend` describes a wrong setting or a stopped part, and how to correct it.

    The exit code is 1 if the cluster is unhealthy: if a node is not ready, or if no node accepts pods, because all
    nodes are cordoned or have a full disk.
    """
    target = Target.of(options)
    home = Home.find(os.environ)
    if not has_cluster(target):
        click.echo(f"not running ({home.path}); start it with: muster up --detach")
        sys.exit(1)
    sys.exit(ask(_print_status(target, home)))


async def _print_status(target: Target, home: Home) -> int:
    """Print the state of the server, its nodes and its jobs; return 1 if the cluster is unhealthy, otherwise 0."""
    from muster.actions.server.service import find_outdated
    from muster.api.nodes import describe_full_disk, has_full_disk, is_ready
    from muster.api.ours.limits import LIMITS_ANNOTATION
    from muster.cli.terminal.output import say
    from muster.insight.attention import find_troubles
    from muster.insight.reader.attention import read_scene
    from muster.insight.text import escape_controls
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        version = await session.client.find_version() or "unknown"
        now = RealClock().now()
        scene = await read_scene(session.client, session.namespace, now, say)
    nodes = scene.nodes
    pid = None if names_another(target, home) else home.server_pid()
    click.echo(f"server   {version}" + (f", process {pid}, data in {home.path}" if pid else ""))
    if pid and (upgrade := describe_upgrade(nodes or (), VERSION)):
        click.echo(f"upgrade  {upgrade}")
    if pid and (outdated := find_outdated(home)):
        click.echo(f"service  {outdated}")
    well = sum(map(is_ready, nodes or ()))
    cordoned = [node.metadata.name for node in nodes or () if node.spec.unschedulable]
    takes_pods = not nodes or any(
        is_ready(node) and not node.spec.unschedulable and not has_full_disk(node) for node in nodes
    )
    if nodes is not None:
        full = {node.metadata.name: describe_full_disk(node) for node in nodes if has_full_disk(node)}
        said = f"{well} of {len(nodes)} ready{_describe_cordoned(cordoned)}{describe_full(full)}"
        click.echo(f"nodes    {escape_controls(said)}")
        for enforcement in dict.fromkeys(filter(None, (n.metadata.annotations.get(LIMITS_ANNOTATION) for n in nodes))):
            click.echo(f"limits   {escape_controls(enforcement)}")
    words = Counter(row["state"] for row in scene.jobs)
    click.echo("jobs     " + (", ".join(f"{count} {word.lower()}" for word, count in sorted(words.items())) or "none"))
    if scene.silence:
        click.echo(f"queues   {scene.silence}")
    for trouble in find_troubles(scene):
        if trouble.topic not in _IN_LINES:
            click.echo(f"mend     {escape_controls(trouble.sentence)}. {escape_controls(trouble.advice)}")
    return 0 if not scene.unready and not scene.silence and well == len(nodes or ()) and takes_pods else 1


def describe_upgrade(nodes: Iterable["Node"], installed: str) -> str:
    """Return a sentence on what to do if the server runs another release than the installed one.

    Return "" if it runs the same release, or its release is unknown.

    nodes: all nodes. The server's own process nodes report its release.
    """
    from muster.api.ours.embedded import NODE_IDENTITY

    own = (one for one in nodes if NODE_IDENTITY not in one.metadata.annotations)  # the others have joined
    runtimes = [one.status.node_info.container_runtime_version for one in own]
    running = {one.removeprefix(_RUNTIME) for one in runtimes if one.startswith(_RUNTIME)}
    if not running or running == {installed}:
        return ""
    return f"the server runs Muster {', '.join(sorted(running))}, and {installed} is installed: muster restart"


def _describe_cordoned(names: Sequence[str]) -> str:
    """Return which nodes are cordoned, and how to undo that; "" if none is."""
    from muster.insight.text import list_names

    return f"; cordoned, so no new pods start there: {list_names(names)} (kubectl uncordon NODE)" if names else ""


def describe_full(disks: Mapping[str, str]) -> str:
    """Return a clause that names the nodes with a full disk; "" if there are none.

    disks: the nodes with a full disk, each with the name of the disk; "" if the disk is unknown.
    """
    from muster.insight.text import list_names

    names = [f"{name} ({disk})" if disk else name for name, disk in disks.items()]
    return f"; a full disk keeps new pods from starting: {list_names(names)}" if names else ""
