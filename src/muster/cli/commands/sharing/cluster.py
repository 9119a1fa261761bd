"""`muster cluster`: manage several clusters behind one queue (MultiKueue)."""

import os
import stat
import sys
from typing import Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.suggesting import SuggestingGroup
from muster.cli.names.types import parse_name
from muster.cli.session import connect, run

_HOME = "kueue-system"
_ACCOUNT = "multikueue"


@click.group(
    cls=SuggestingGroup,
    epilog=format_examples(
        "muster cluster invite > box2.kubeconfig                    # on a worker",
        "muster cluster join box2 --kubeconfig box2.kubeconfig      # on the manager",
        "muster cluster list",
    ),
)
def command() -> None:
    """Put one queue in front of several clusters.

    Users submit jobs to one cluster, the manager. Each job runs as a whole in one of the other clusters, the workers,
    wherever quota is free first. The manager shows the job as if it ran there.
    """


@command.command(
    short_help="On a worker: print a kubeconfig for a manager.",
    epilog=format_examples(
        "muster cluster invite > box2.kubeconfig",
        "muster cluster invite --namespace lab --namespace default > box2.kubeconfig",
        "ssh box2 muster cluster invite | muster cluster join box2 --kubeconfig -",
    ),
)
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    metavar="NAME",
    type=parse_name,
    multiple=True,
    help="Let the manager run jobs in this namespace; repeatable (default: those with a LocalQueue).",
    shell_complete=names.complete_namespaces,
)
@click.option("--all-namespaces", "everywhere", is_flag=True, help="In all namespaces, the system's own too.")
@click.option(
    "--name",
    metavar="NAME",
    type=parse_name,
    default=_ACCOUNT,
    show_default=True,
    help="The name of the service account.",
)
@click.option(
    "--server",
    metavar="URL",
    default="",
    help="The address at which the manager reaches this cluster, if not the published one.",
)
@click.option(
    "--kind", metavar="PLURAL.GROUP", multiple=True, help="A further kind that the manager may send; repeatable."
)
@click.option(
    "--exec/--no-exec", "may_exec", default=True, help="Whether the manager may run commands in pods (default: yes)."
)
@click.option("--kubeconfig", metavar="FILE", help="Cluster to use instead of the embedded one.")
def invite(
    namespaces: tuple[str, ...],
    everywhere: bool,
    name: str,
    server: str,
    kind: tuple[str, ...],
    may_exec: bool,
    kubeconfig: str | None,
) -> None:
    """Let a manager send jobs to this cluster: print a kubeconfig for it.

    The kubeconfig is for a service account that may run Jobs and JobSets and read their output, and no more. It does
    not expire: run this again to change its rights, and delete the account to withdraw it.
    """
    if everywhere and namespaces:
        raise click.UsageError("only one of --namespace and --all-namespaces can be meant")
    from muster.cli.actions.clusters.invitation import Invitation

    invitation = Invitation(name, _HOME, tuple(dict.fromkeys(namespaces)), tuple(dict.fromkeys(kind)), exec=may_exec)
    _print_kubeconfig(run(_invite(Target(kubeconfig or ""), invitation, server, everywhere=everywhere)))


async def _invite(target: Target, invitation: Any, server: str, *, everywhere: bool) -> str:
    from muster.actions.server.session import find_connection
    from muster.cli.actions.clusters import inviting
    from muster.cli.terminal.output import say
    from muster.insight.reader.engine import is_embedded
    from muster.runtime.kube.kubeconfig_text import write_kubeconfig
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        if not (everywhere or invitation.namespaces):
            invitation = await inviting.confine_invitation(session.client, invitation)
        reached = await inviting.how_reached(session.client, find_connection(target), server)
        embedded = await is_embedded(session.client)
        token, authority = await inviting.put_account(session.client, invitation, RealClock())
    for line in inviting.list_remarks(invitation, reached.server, embedded=embedded):
        say(line)
    return write_kubeconfig(inviting.make_connection(invitation, reached, token, authority), invitation.name)


def _print_kubeconfig(kubeconfig: str) -> None:
    """Print the kubeconfig. If stdout is redirected to a file, make that file private to its owner."""
    try:
        descriptor = sys.stdout.fileno()
        info = os.fstat(descriptor)
        if stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid():
            os.fchmod(descriptor, 0o600)
    except (OSError, ValueError):  # stdout is no file
        pass
    click.echo(kubeconfig, nl=False)


@command.command(
    short_help="On the manager: send jobs to cluster NAME, too.",
    epilog=format_examples(
        "muster cluster join box2 --kubeconfig box2.kubeconfig --queue shared",
        "ssh box2 muster cluster invite | muster cluster join box2 --kubeconfig -",
    ),
)
@click.argument("name", type=parse_name)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    required=True,
    help="The worker's, from `muster cluster invite`; - is stdin.",
    shell_complete=names.complete_files,
)
@click.option("--context", metavar="NAME", default="", help="The context of the kubeconfig, if not the current one.")
@click.option(
    "--queue", "queues", metavar="Q", type=parse_name, multiple=True, help="Send jobs of ClusterQueue Q; repeatable."
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=float,
    default=30.0,
    show_default=True,
    help="How long to wait for the connection.",
)
@click.option("--manager", metavar="FILE", default="", help="The manager's kubeconfig (default: KUBECONFIG).")
def join(name: str, kubeconfig: str, context: str, queues: tuple[str, ...], timeout: float, manager: str) -> None:
    """Let jobs run in cluster NAME, too, and wait until the manager has reached it.

    Run it again to change the kubeconfig or to add a queue. The manager keeps only what the context needs, in a Secret.
    The kubeconfig must contain all of that itself: no files, no programs, and no server without a checked certificate.
    """
    config = _load_kubeconfig(kubeconfig, context)
    run(_join(Target(manager), name, config, queues, timeout))


def _load_kubeconfig(path: str, context: str) -> Any:
    """Return the connection that a kubeconfig describes, read from a file or stdin (-).

    Raises `click.ClickException` if a manager may not use it, because it names files or programs, or checks no
    certificate.
    """
    from muster.multicluster.links.kubeconfigs import MAX_BYTES, UntrustedKubeconfigError, read_trusted

    if path == "-":
        data, source = sys.stdin.buffer.read(MAX_BYTES + 1), "stdin"
    else:
        with open(path, "rb") as file:
            data, source = file.read(MAX_BYTES + 1), path
    try:
        return read_trusted(data, source, context)
    except UntrustedKubeconfigError as error:
        raise click.ClickException(str(error)) from error


async def _join(target: Target, name: str, config: Any, queues: tuple[str, ...], timeout: float) -> None:
    from muster.actions.server.session import find_connection
    from muster.cli.actions.clusters.inviting import authority_of
    from muster.cli.actions.clusters.joining import join, wait_until_connected
    from muster.runtime.realclock import RealClock

    own, server, authority = (
        find_connection(target).cluster,
        config.cluster.server,
        config.cluster.certificate_authority,
    )
    if own.server == server or (authority is not None and authority_of(own) == authority):
        raise click.ClickException(f"{server} is the manager itself, which cannot be a worker of its own")
    async with connect(target) as session:
        await join(session.client, name, config, queues)
        await wait_until_connected(session.client, name, RealClock(), timeout)


@command.command(
    "list",
    short_help="List clusters: whether they are connected, and what runs there.",
    epilog=format_examples("muster cluster list", "muster cluster list -o json"),
)
@click.option("-o", "--output", type=click.Choice(["json", "yaml", "name"]), help="Another form.")
@click.option("--kubeconfig", metavar="FILE", help="Cluster to use instead of the embedded one.")
def list_(output: str | None, kubeconfig: str | None) -> None:
    """List the worker clusters with their connection to the manager, the reason if there is none, and their jobs."""
    run(_list(Target(kubeconfig or ""), output or ""))


async def _list(target: Target, output: str) -> None:
    from muster.cli.terminal.output import dump, say, terminal_width
    from muster.insight.clusters import format_state, make_table
    from muster.insight.reader.clusters import all_clusters
    from muster.insight.text import format_table
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        clusters = await all_clusters(session.client)
    if output == "name":
        for cluster in clusters:
            click.echo(cluster.name)
    elif output:
        click.echo(dump([format_state(cluster) for cluster in clusters], output))
    elif clusters:
        header, lines = make_table(clusters, RealClock().now())
        click.echo(format_table(header, lines, width=terminal_width()))
    else:
        say("no clusters; one joins with: muster cluster join NAME --kubeconfig FILE")


@command.command(
    short_help="On the manager: send no jobs to cluster NAME any more.",
    epilog=format_examples(
        "muster cluster leave box2", "muster cluster leave box2 --force   # its jobs stop, and wait"
    ),
)
@click.argument("name", type=parse_name, shell_complete=names.complete_clusters)
@click.option("--force", is_flag=True, help="Leave although jobs run there: they stop, and wait for another cluster.")
@click.option("--kubeconfig", metavar="FILE", help="Cluster to use instead of the embedded one.")
def leave(name: str, force: bool, kubeconfig: str | None) -> None:
    """Remove cluster NAME. The worker keeps the service account: delete it there to withdraw the kubeconfig."""
    run(_leave(Target(kubeconfig or ""), name, force=force))


async def _leave(target: Target, name: str, *, force: bool) -> None:
    from muster.actions.following.elsewhere import make_reach
    from muster.cli.actions.clusters.leaving import leave
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        await leave(session.client, name, RealClock(), make_reach(session.client), force=force)
