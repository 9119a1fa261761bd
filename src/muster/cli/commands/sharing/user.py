"""`muster user`: add, list and remove users of a cluster."""

from typing import Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.suggesting import SuggestingGroup
from muster.cli.names.types import parse_name, user_name
from muster.cli.session import connect, run, target_options


@click.group(
    cls=SuggestingGroup,
    epilog=format_examples(
        "muster user add ada --queue vision", "muster user queue ada speech", "muster user remove ada"
    ),
)
def command() -> None:
    """Add, list and remove users of the cluster.

    A user may run jobs in one namespace, and read the nodes and quotas of the cluster. All jobs run as the Unix user
    who started the server. Therefore add only people who may act as that Unix user.
    """


@command.command(
    short_help="Add user NAME, and print a command line for NAME.",
    epilog=format_examples(
        "muster user add ada",
        "muster user add ada --queue vision",
        "muster user add grace --admin",
    ),
)
@click.argument("name", type=user_name)
@click.option(
    "--queue", metavar="QUEUE", type=parse_name, help="Default queue: jobs of NAME that name no queue go to QUEUE."
)
@click.option("--admin", is_flag=True, help="Allow NAME to do everything in the cluster, including adding users.")
@click.option("--server", metavar="URL", default="", help="Address of this cluster, as seen from NAME's machine.")
@target_options
def add(name: str, queue: str | None, admin: bool, server: str, **options: Any) -> None:
    """Add user NAME, and print a command that connects NAME's `muster` to this cluster.

    Send the printed line to NAME. It contains a secret, and works until NAME is removed. Run `muster user add` again to
    change the rights of NAME, or to print the line again.
    """
    click.echo(run(_add(Target.of(options), name, queue or "", server, admin=admin)))


async def _add(target: Target, name: str, queue: str, server: str, *, admin: bool) -> str:
    """Create the objects of a user, or change those that exist; return the user's login command.

    queue: the default queue; "" for none.
    server: the public address of the cluster; "" to find it.
    """
    from muster.actions.choices import check_queue
    from muster.actions.quota.teams import join_team
    from muster.actions.server.session import find_connection, is_of_system_server
    from muster.api.core import NAMESPACE
    from muster.cli.actions.clusters import inviting
    from muster.cli.actions.people.newuser import NewUser, login_command
    from muster.cli.actions.people.users import require_unix_namespace, requiring_administrator
    from muster.cli.terminal.output import say
    from muster.insight.reader.engine import is_embedded
    from muster.runtime.kube.kubeconfig_text import write_kubeconfig
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        if not admin and is_of_system_server(target):
            require_unix_namespace(await session.client.get(NAMESPACE, session.namespace), name)
        if queue:
            await check_queue(session.client, session.namespace, queue)
        user = NewUser(name, session.namespace, queue, admin)
        reached = await inviting.find_public_address(session.client, find_connection(target), server)
        embedded = await is_embedded(session.client)
        with requiring_administrator("add users"):
            token, authority = await inviting.put_account(session.client, user, RealClock())
        if queue and embedded:
            await join_team(session, queue, name)
    say(f"Send this line to {name} as you would send a password; to end it: muster user remove {name}")
    for line in inviting.list_address_remarks(reached.server, embedded=embedded):
        say(line)
    if queue and not embedded:
        say(f"this cluster puts no job into queue {queue} by itself: {name} names it with --queue {queue}")
    return login_command(
        write_kubeconfig(inviting.make_connection(user, reached, token, authority, user.namespace), name)
    )


@command.command(
    "list",
    short_help="List users with their namespaces and queues.",
    epilog=format_examples("muster user list", "muster user list -o json"),
)
@click.option("-o", "--output", type=click.Choice(["json", "yaml", "name"]), help="Output format (default: text).")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Kubeconfig of the cluster (default: $KUBECONFIG, or else the cluster of `muster up`).",
)
def list_(output: str | None, kubeconfig: str | None) -> None:
    """List the users that `muster user add` has added."""
    run(_list(Target(kubeconfig or ""), output or ""))


async def _list(target: Target, output: str) -> None:
    from muster.cli.actions.people.users import list_users, requiring_administrator
    from muster.cli.terminal.output import dump
    from muster.insight.text import format_age, format_table
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        with requiring_administrator("list its users"):
            rows = await list_users(session.client)
    if output in ("json", "yaml"):
        click.echo(dump(rows, output))
    elif output == "name":
        for row in rows:
            click.echo(row["name"])
    elif not rows:
        click.echo("no users; add one with: muster user add NAME", err=True)
    else:
        now = RealClock().now()
        cells = [
            [row["name"], ",".join(row["namespaces"]) or "-", row["queue"] or "-", "yes" if row["admin"] else "no",
             format_age(row["created"], now)]
            for row in rows
        ]  # fmt: skip
        click.echo(format_table(["NAME", "NAMESPACE", "QUEUE", "ADMIN", "AGE"], cells))


@command.command(
    "queue",
    short_help="Set the default queue of user NAME.",
    epilog=format_examples(
        "muster user queue ada vision", "muster user queue ada      # the queue of the oldest team again"
    ),
)
@click.argument("name", type=parse_name)
@click.argument("queue", required=False, type=parse_name, shell_complete=names.complete_queues)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Kubeconfig of the cluster (default: $KUBECONFIG, or else the cluster of `muster up`).",
    shell_complete=names.complete_files,
)
def queue_(name: str, queue: str | None, kubeconfig: str | None) -> None:
    """Set the default queue of user NAME, to which jobs go that name no queue.

    Without QUEUE, the default queue is the queue of the oldest team of NAME.
    """
    click.echo(run(_choose_queue(Target(kubeconfig or ""), name, queue or "")))


async def _choose_queue(target: Target, name: str, queue: str) -> str:
    from muster.actions.quota.teams import choose_queue, require_known_submitters
    from muster.cli.actions.people.users import requiring_administrator

    async with connect(target) as session:
        await require_known_submitters(session.client)
        with requiring_administrator("choose the queues of its users"):
            await choose_queue(session.client, name, queue)
    where = f"wait in queue {queue}" if queue else "wait in the queue of the oldest team with that user"
    return f"jobs of {name} that name no queue {where}"


@command.command(
    short_help="Remove users. Their credentials become invalid at once.",
    epilog=format_examples("muster user remove ada", "muster cancel --user ada && muster user remove ada"),
)
@click.argument("users", metavar="NAME...", type=user_name, nargs=-1, required=True)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Kubeconfig of the cluster (default: $KUBECONFIG, or else the cluster of `muster up`).",
    shell_complete=names.complete_files,
)
def remove(users: tuple[str, ...], kubeconfig: str | None) -> None:
    """Remove users. Their credentials become invalid at once, and they leave their teams. Their jobs continue."""
    run(_remove(Target(kubeconfig or ""), users))


async def _remove(target: Target, users: tuple[str, ...]) -> None:
    from muster.actions.quota.teams import leave_teams
    from muster.cli.actions.people.users import list_users, remove_user, requiring_administrator

    unknown = []
    async with connect(target) as session:
        for user in users:
            with requiring_administrator("remove its users"):
                is_removed = await remove_user(session.client, user)
            if is_removed:
                await leave_teams(session.client, user)
                click.echo(f"user {user} removed")
            else:
                unknown.append(user)
        known = [str(row["name"]) for row in await list_users(session.client)] if unknown else []
    if unknown:
        there = f"there are: {', '.join(known)}" if known else "there is none"
        raise click.ClickException(f"there is no user {', '.join(unknown)}; {there}")
