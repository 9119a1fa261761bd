"""`muster queue`: list, stop, resume, create, change and delete queues."""

from typing import TYPE_CHECKING, Any

import click

from muster.actions.server.session import Session, Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.queue_options import quota_options, sharing_options
from muster.cli.names.suggesting import SuggestingGroup
from muster.cli.names.types import parse_name
from muster.cli.session import ask, connect, target_options

if TYPE_CHECKING:
    from muster.actions.quota.editedqueue import QueueEdit

_CLUSTER = click.option("--cluster", is_flag=True, help="NAME is a ClusterQueue, with jobs of all namespaces.")
_LIMIT = "RES=Q"
_WITHIN = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
_RECLAIM = ("Never", "LowerPriority", "Any")


@click.group(
    cls=SuggestingGroup,
    epilog=format_examples("muster queue list", "muster queue create vision --share 2 --gpus 4 --users ada,grace"),
)
def command() -> None:
    """List, stop, resume, create, edit and delete queues.

    Jobs of a namespace wait in a LocalQueue, which points to a ClusterQueue with a quota. For stop and resume, NAME is
    a LocalQueue of the namespace, or with --cluster a ClusterQueue.
    """


@command.command(
    "list",
    short_help="List queues: their quotas, the used quota, and the number of waiting jobs.",
    epilog=format_examples("muster queue list", "muster queue list -A -o wide"),
)
@click.option("-A", "--all-namespaces", is_flag=True, help="List LocalQueues of all namespaces.")
@click.option(
    "-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="Output format (default: text)."
)
@target_options
def list_(all_namespaces: bool, output: str | None, **options: Any) -> None:
    """List ClusterQueues with their quotas and the used and borrowed quota, and then LocalQueues."""
    from muster.cli.actions.queues.queuelist import print_queues

    ask(print_queues(Target.of(options), output or "", everywhere=all_namespaces))


@command.command(
    short_help="Keep waiting jobs of queue NAME from starting.",
    epilog=format_examples(
        "muster queue stop vision",
        "muster queue stop vision --drain      # also stop its running jobs",
    ),
)
@click.argument("name", type=parse_name, shell_complete=names.complete_queues)
@click.option("--drain", is_flag=True, help="Also stop running jobs, which then wait in the queue again.")
@_CLUSTER
@target_options
def stop(name: str, drain: bool, cluster: bool, **options: Any) -> None:
    """Keep waiting jobs of queue NAME from starting. Running jobs continue, unless --drain is set."""
    policy = "HoldAndDrain" if drain else "Hold"
    ask(_set_policy(Target.of(options), name, policy, cluster=cluster))


@command.command(
    epilog=format_examples(
        "muster queue resume vision", "muster queue resume vision --cluster      # the ClusterQueue"
    ),
)
@click.argument("name", type=parse_name, shell_complete=names.complete_queues)
@_CLUSTER
@target_options
def resume(name: str, cluster: bool, **options: Any) -> None:
    """Let jobs of the stopped queue NAME start again."""
    ask(_set_policy(Target.of(options), name, "None", cluster=cluster))


async def _set_policy(target: Target, name: str, policy: str, *, cluster: bool) -> None:
    from muster.actions.jobs.holding import set_stop_policy

    async with connect(target) as session:
        click.echo(await set_stop_policy(session, name, policy, cluster=cluster))


@command.command(
    short_help="Create a queue NAME with a quota.",
    epilog=format_examples(
        "muster queue create vision --share 2 --gpus 4 --users ada,grace",
        "muster queue create vision --cpus 8 --memory 32Gi",
        "muster queue create speech --cpus 8 --cohort lab --borrow cpu=4",
        "muster queue create vision --gpus 4 --cpus 32 --dry-run",
    ),
)
@click.argument("name", type=parse_name)
@quota_options
@click.option(
    "--flavor",
    metavar="F",
    default="",
    help="ResourceFlavor of the quota. [default: muster-nodes, or else default-flavor]",
)
@click.option("--cohort", metavar="C", default="", help="Lend and borrow unused quota within cohort C.")
@click.option("--borrow", metavar=_LIMIT, multiple=True, help="Borrow at most Q of a resource. Can be repeated.")
@click.option("--lend", metavar=_LIMIT, multiple=True, help="Lend at most Q of a resource. Can be repeated.")
@click.option("--strict", is_flag=True, help="StrictFIFO: a job that does not fit blocks the jobs behind it.")
@click.option(
    "--preempt",
    type=click.Choice(_WITHIN),
    default="LowerPriority",
    show_default=True,
    help="Which jobs of the same queue a job may preempt.",
)
@click.option(
    "--reclaim",
    type=click.Choice(_RECLAIM),
    default="Any",
    show_default=True,
    help="Which jobs of borrowing queues a job may preempt to take lent quota back.",
)
@sharing_options
@click.option("--no-local", is_flag=True, help="Create no LocalQueue.")
@click.option("--dry-run", is_flag=True, help="Print the manifest that would be submitted, and submit nothing.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), default="yaml", help="Output format of --dry-run.")
@target_options
def create(name: str, **options: Any) -> None:
    """Create a ClusterQueue NAME with a quota, and a LocalQueue NAME in the namespace that points to it.

    With --share or --users, the queue belongs to a team. The command takes the team's quota out of the queue that has
    quota for all nodes. Each of these queues borrows quota that the others do not use. If several queues want to
    borrow, they get quota in proportion to their shares. Jobs of the team's users go to this queue unless they name
    another one.

    Jobs may request only resources of which the queue has a quota.
    """
    from muster.cli.actions.queues.queueoptions import is_team, read_new_queue

    target = Target.of(options)
    if is_team(options):
        from muster.cli.actions.people.newteam import create_team

        ask(create_team(target, name, options))
    elif options["dry_run"]:
        from muster.cli.actions.queues.newqueue import make_documents
        from muster.cli.terminal.output import print_documents

        print_documents(make_documents(read_new_queue(name, target.namespace or "default", options)), options["output"])
    else:
        ask(_create(target, name, options))


async def _create(target: Target, name: str, options: dict[str, Any]) -> None:
    from muster.actions.quota.queues import create_all
    from muster.actions.quota.teams import require_known_submitters
    from muster.cli.actions.queues.newqueue import make_documents
    from muster.cli.actions.queues.queueoptions import read_new_queue

    async with connect(target) as session:
        if not options["flavor"]:
            options |= {"flavor": await _find_nodes_flavor(session)}
        queue = read_new_queue(name, session.namespace, options)
        if queue.limits:
            await require_known_submitters(session.client)
        for line in await create_all(session.client, make_documents(queue)):
            click.echo(line)


async def _find_nodes_flavor(session: Session) -> str:
    """Return the name of the flavor with which an embedded cluster is created.

    Return "" if the cluster has no such flavor, or the user may not see it.
    """
    from muster.api.kueue import RESOURCE_FLAVOR
    from muster.api.ours.embedded import NODES_FLAVOR
    from muster.runtime.refusals import ignoring

    with ignoring("Forbidden"):  # creating the queue then fails with the same error
        if await session.client.find(RESOURCE_FLAVOR, NODES_FLAVOR) is not None:
            return NODES_FLAVOR
    return ""


@command.command(
    short_help="Change the settings of ClusterQueue NAME.",
    epilog=format_examples(
        "muster queue edit vision --cpus 12 --memory 64Gi",
        "muster queue edit vision --share 3 --add-users eve --per-user jobs=4",
        "muster queue edit vision --cohort lab --borrow cpu=4",
        "muster queue edit vision --borrow cpu=unlimited",
        "muster queue edit vision --no-cohort --no-strict",
    ),
)
@click.argument("name", type=parse_name, shell_complete=names.complete_cluster_queues)
@quota_options
@click.option("--flavor", metavar="F", default="", help="ResourceFlavor whose quota changes, if the queue has several.")
@click.option("--cohort", metavar="C", type=parse_name, help="Lend and borrow unused quota within cohort C.")
@click.option(
    "--no-cohort", is_flag=True, help="Leave the cohort. This also removes the limits of borrowing and lending."
)
@click.option(
    "--borrow",
    metavar=_LIMIT,
    multiple=True,
    help="Borrow at most Q of a resource; RES=unlimited removes the limit. Can be repeated.",
)
@click.option(
    "--lend",
    metavar=_LIMIT,
    multiple=True,
    help="Lend at most Q of a resource; RES=unlimited removes the limit. Can be repeated.",
)
@click.option(
    "--strict/--no-strict", default=None, help="StrictFIFO: a job that does not fit blocks the jobs behind it."
)
@click.option("--preempt", type=click.Choice(_WITHIN), help="Which jobs of the same queue a job may preempt.")
@click.option(
    "--reclaim",
    type=click.Choice(_RECLAIM),
    help="Which jobs of borrowing queues a job may preempt to take lent quota back.",
)
@sharing_options
@click.option("--add-users", metavar="A,B", default=None, help="Also let these users use the queue.")
@click.option("--remove-users", metavar="A,B", default=None, help="Do not let these users use the queue any more.")
@click.option("--everybody", is_flag=True, help="Let all users use the queue.")
@click.option(
    "--without-team/--no-without-team",
    default=None,
    help="Whether users without a team may use the queue from which the teams got their quota. [default: "
    "only while no team exists]",
)
@click.option("--dry-run", is_flag=True, help="Let the server check the change, print the result, and store nothing.")
@target_options
def edit(name: str, dry_run: bool, **options: Any) -> None:
    """Change the given settings of ClusterQueue NAME. All other settings keep their values, and running jobs continue.

    If running jobs use more than a new, smaller quota, no further job of the queue starts until enough of them have
    ended.
    """
    from dataclasses import replace

    from muster.actions.quota.editedqueue import QueueEdit
    from muster.cli.actions.queues.queueoptions import read_edit

    target = Target.of(options)
    wanted = read_edit(options)
    if replace(wanted, flavor="") == QueueEdit():
        raise click.UsageError("name a change, such as --cpus 12")
    ask(_edit(target, name, wanted, dry_run=dry_run))


async def _edit(target: Target, name: str, edit: "QueueEdit", *, dry_run: bool) -> None:
    """Change a ClusterQueue, or print the changed spec in a dry run. Raises `click.ClickException`."""
    from functools import partial

    from muster.actions.quota import queues
    from muster.actions.quota.editedqueue import describe_excess, make_annotations, make_spec_patch
    from muster.api.ours.teams import FOLLOWS_NODES
    from muster.cli.actions.people.newteam import check_edit
    from muster.cli.terminal.output import dump, say

    async with connect(target) as session:
        followed = await check_edit(session, name, edit)
        changes = partial(make_spec_patch, edit=edit), partial(make_annotations, edit=edit)
        try:
            after = await queues.edit(session, name, *changes, dry_run=dry_run)
        except ValueError as error:
            raise click.ClickException(f"{name}: {error}") from None
    if after is None:
        click.echo(f"clusterqueue/{name} is unchanged")
    else:
        click.echo(dump(after["spec"], "yaml") if dry_run else f"clusterqueue/{name} changed")
        if followed and not dry_run:
            undo = f"kubectl annotate clusterqueue {name} {FOLLOWS_NODES}=true"
            say(f"its quota follows the nodes no more; to undo that: {undo}")
        for sentence in describe_excess(after):
            say(sentence)


@command.command(
    short_help="Delete queue NAME, and the LocalQueues that point to it.",
    epilog=format_examples("muster queue delete vision", "muster queue delete vision --yes"),
)
@click.argument("name", type=parse_name, shell_complete=names.complete_cluster_queues)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@target_options
def delete(name: str, yes: bool, **options: Any) -> None:
    """Delete ClusterQueue NAME with all its LocalQueues. If there is none, delete LocalQueue NAME of the namespace.

    The command lists the jobs that use the queue, and asks for confirmation. Running jobs continue. Waiting jobs do not
    start any more.
    """
    from muster.actions.quota import queues
    from muster.cli.terminal.asking import ask_to_go_on
    from muster.runtime.realclock import RealClock

    target = Target.of(options)

    async def look() -> queues.Deletion:
        async with connect(target) as session:
            return await queues.plan_deletion(session, name)

    async def act(deletion: queues.Deletion) -> None:
        async with connect(target) as session:
            for line in await queues.delete(session.client, deletion, RealClock()):
                click.echo(line)

    deletion = ask(look())
    local = [
        f"localqueue/{one.metadata.name} of namespace {one.metadata.namespace} will be deleted"
        for one in deletion.local
    ]
    kind = "localqueue" if deletion.cluster is None else "clusterqueue"
    if not ask_to_go_on(f"delete {kind}/{name}", [*local, *(job.describe_effect() for job in deletion.jobs)], yes=yes):
        raise click.ClickException("nothing was done")
    ask(act(deletion))
