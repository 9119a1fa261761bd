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
    """Run the jobs of one queue in several clusters.

    Users submit jobs to one cluster, the manager. Each job runs in one of the other clusters, the workers: usually in
    the first one that has free quota. The manager's `muster ps` and `muster logs` show the job as if it ran in the
    manager.
    """


@command.command(
    short_help="On a worker: create an account for a manager, and print its kubeconfig.",
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
    help="Namespace in which the manager may run jobs (default: all namespaces with a LocalQueue). Can be repeated.",
    shell_complete=names.complete_namespaces,
)
@click.option(
    "--all-namespaces",
    "everywhere",
    is_flag=True,
    help="Let the manager run jobs in all namespaces, including system namespaces.",
)
@click.option(
    "--name",
    metavar="NAME",
    type=parse_name,
    default=_ACCOUNT,
    show_default=True,
    help="Name of the service account.",
)
@click.option(
    "--server",
    metavar="URL",
    default="",
    help="Address at which the manager reaches this cluster (default: the published address).",
)
@click.option(
    "--kind",
    metavar="PLURAL.GROUP",
    multiple=True,
    help="Additional kind of jobs that the manager may send. Can be repeated.",
)
@click.option(
    "--exec/--no-exec", "may_exec", default=True, help="Whether the manager may run commands in pods (default: yes)."
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Kubeconfig of the cluster (default: $KUBECONFIG, or else the cluster of `muster up`).",
)
def invite(
    namespaces: tuple[str, ...],
    everywhere: bool,
    name: str,
    server: str,
    kind: tuple[str, ...],
    may_exec: bool,
    kubeconfig: str | None,
) -> None:
    """Create a service account for a manager, which may then send jobs to this cluster, and print its kubeconfig.

    The account may run jobs and read their output. It has no rights for Secrets, nodes or roles. The kubeconfig does
    not expire. To change its rights, run the command again. To revoke it, delete the service account.
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
        reached = await inviting.find_public_address(session.client, find_connection(target), server)
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
    short_help="On the manager: add the worker cluster NAME.",
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
    help="Kubeconfig of the worker, from `muster cluster invite`, or - for the standard input.",
    shell_complete=names.complete_files,
)
@click.option("--context", metavar="NAME", default="", help="Context of the kubeconfig (default: the current context).")
@click.option(
    "--queue",
    "queues",
    metavar="Q",
    type=parse_name,
    multiple=True,
    help="ClusterQueue whose jobs run in the workers. Can be repeated.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=float,
    default=30.0,
    show_default=True,
    help="Maximum time to wait for the connection.",
)
@click.option(
    "--manager",
    metavar="FILE",
    default="",
    help="Kubeconfig of the manager (default: $KUBECONFIG, or else the cluster of `muster up`).",
)
def join(name: str, kubeconfig: str, context: str, queues: tuple[str, ...], timeout: float, manager: str) -> None:
    """Add the worker cluster NAME, and wait until the manager has connected to it.

    The manager stores one context of the kubeconfig in a Secret. The kubeconfig must not name files or programs, and
    must verify the server's certificate. To replace the kubeconfig or to add a queue, run the command again.
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
    short_help="List worker clusters, their connections and their jobs.",
    epilog=format_examples("muster cluster list", "muster cluster list -o json"),
)
@click.option("-o", "--output", type=click.Choice(["json", "yaml", "name"]), help="Output format (default: text).")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Kubeconfig of the cluster (default: $KUBECONFIG, or else the cluster of `muster up`).",
)
def list_(output: str | None, kubeconfig: str | None) -> None:
    """List the worker clusters, whether each is connected to the manager, and the number of its jobs."""
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
    short_help="On the manager: remove the worker cluster NAME.",
    epilog=format_examples("muster cluster leave box2", "muster cluster leave box2 --force   # even if jobs run there"),
)
@click.argument("name", type=parse_name, shell_complete=names.complete_clusters)
@click.option(
    "--force",
    is_flag=True,
    help="Also remove a worker in which jobs run. These jobs stop, and wait for another worker.",
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Kubeconfig of the cluster (default: $KUBECONFIG, or else the cluster of `muster up`).",
)
def leave(name: str, force: bool, kubeconfig: str | None) -> None:
    """Remove the worker cluster NAME.

    The worker keeps the service account of the manager. To revoke the kubeconfig, delete the account there.
    """
    run(_leave(Target(kubeconfig or ""), name, force=force))


async def _leave(target: Target, name: str, *, force: bool) -> None:
    from muster.actions.following.elsewhere import make_reach
    from muster.cli.actions.clusters.leaving import leave
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        await leave(session.client, name, RealClock(), make_reach(session.client), force=force)
