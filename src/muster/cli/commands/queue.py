"""`muster queue`: list, stop, resume, create, change and delete queues."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from muster.actions.session import Session, Target
from muster.cli.completion import names
from muster.cli.names.examples import examples
from muster.cli.names.suggesting import SuggestingGroup
from muster.cli.names.types import memory, name, quantity
from muster.cli.session import connect, run, target_options

if TYPE_CHECKING:
    from muster.cli.actions.editedqueue import QueueEdit

_CLUSTER = click.option("--cluster", is_flag=True, help="NAME is a ClusterQueue: for all namespaces.")
_LIMIT = "RES=Q"
_WITHIN = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
_RECLAIM = ("Never", "LowerPriority", "Any")


@click.group(
    cls=SuggestingGroup,
    epilog=examples("muster queue list", "muster queue create vision --cpu 8 --cohort lab"),
)
def command() -> None:
    """List, stop, resume, create, edit and delete queues.

    A LocalQueue is where the jobs of a namespace wait; the ClusterQueue behind it has the quota. NAME means the
    LocalQueue of the namespace, and the ClusterQueue with --cluster.
    """


@command.command(
    "list",
    short_help="List queues: quotas, what is used of them, who waits.",
    epilog=examples("muster queue list", "muster queue list -A -o wide"),
)
@click.option("-A", "--all-namespaces", is_flag=True, help="LocalQueues of all namespaces.")
@click.option("-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="Another form.")
@target_options
def list_(all_namespaces: bool, output: str | None, **options: Any) -> None:
    """List ClusterQueues with their quotas, and how much of each is used and borrowed, then LocalQueues."""
    run(_list(Target.of(options), output or "", everywhere=all_namespaces))


async def _list(target: Target, output: str, *, everywhere: bool) -> None:
    from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE
    from muster.cli.terminal.output import say
    from muster.insight.quota.queues import format_row, make_cluster_queue_row, make_local_queue_row
    from muster.insight.reader.clusters import destinations
    from muster.insight.reader.queues import list_or_say

    async with connect(target) as session:
        local = (await session.client.list(LOCAL_QUEUE, "" if everywhere else session.namespace)).items
        cluster = await list_or_say(session.client, CLUSTER_QUEUE, "", say, "ClusterQueues")
        sent = await destinations(session.client, cluster or ())
    rows = [row | {"clusters": sent.get(row["name"], ())} for row in map(make_cluster_queue_row, cluster or ())]
    locals_ = [make_local_queue_row(queue) for queue in local]
    if output in ("json", "yaml"):
        from muster.cli.terminal.output import dump

        click.echo(dump({"clusterQueues": [format_row(row) for row in rows], "localQueues": locals_}, output))
    elif output == "name":
        for row in rows:
            click.echo(f"clusterqueue/{row['name']}")
        for row in locals_:
            click.echo(f"localqueue/{row['name']}")
    elif rows or locals_:
        _print(rows, locals_, everywhere=everywhere, wide=output == "wide")
    elif cluster is not None:
        click.echo("no queues; make one with: muster queue create NAME --cpu N", err=True)
    else:
        click.echo("no LocalQueues", err=True)


def _print(rows: list[dict[str, Any]], local: list[dict[str, Any]], *, everywhere: bool, wide: bool) -> None:
    from muster.cli.terminal.output import terminal_width
    from muster.insight.quota.queues import format_usage, list_resources
    from muster.insight.text import format_table

    if rows:
        resources = list_resources(rows, everything=wide)
        header = ["CLUSTERQUEUE", "COHORT", "STATE", "PENDING", "ADMITTED", *(r.upper() for r in resources)]
        sends = any(row["clusters"] for row in rows)
        header += ["CLUSTERS"] if sends else []
        cells = [
            [row["name"], row["cohort"] or "-", row["state"], str(row["pending"]), str(row["admitted"])]
            + [format_usage(row, resource) for resource in resources]
            + ([",".join(row["clusters"]) or "-"] if sends else [])
            + ([row["strategy"], row["message"]] if wide else [])
            for row in rows
        ]
        width = terminal_width() if wide else 0
        click.echo(format_table(header + (["STRATEGY", "MESSAGE"] if wide else []), cells, width=width))
    if rows and local:
        click.echo()
    if local:
        first = ["NAMESPACE"] if everywhere else []
        header = [*first, "LOCALQUEUE", "CLUSTERQUEUE", "STATE", "PENDING", "ADMITTED"] + (["MESSAGE"] if wide else [])
        cells = [
            ([row["namespace"]] if everywhere else [])
            + [row["name"], row["clusterQueue"], row["state"], str(row["pending"]), str(row["admitted"])]
            + ([row["message"]] if wide else [])
            for row in local
        ]
        click.echo(format_table(header, cells, width=terminal_width() if wide else 0))


@command.command(
    short_help="Let nothing start from queue NAME any more.",
    epilog=examples(
        "muster queue stop vision",
        "muster queue stop vision --drain      # what runs stops, and queues again",
    ),
)
@click.argument("name", type=name, shell_complete=names.queues)
@click.option("--drain", is_flag=True, help="Also stop running jobs, which queue again.")
@_CLUSTER
@target_options
def stop(name: str, drain: bool, cluster: bool, **options: Any) -> None:
    """Keep jobs from starting from queue NAME; running jobs go on, unless --drain is given."""
    policy = "HoldAndDrain" if drain else "Hold"
    run(_set_policy(Target.of(options), name, policy, cluster=cluster))


@command.command(
    epilog=examples("muster queue resume vision", "muster queue resume vision --cluster      # the ClusterQueue"),
)
@click.argument("name", type=name, shell_complete=names.queues)
@_CLUSTER
@target_options
def resume(name: str, cluster: bool, **options: Any) -> None:
    """Let jobs start from queue NAME again."""
    run(_set_policy(Target.of(options), name, "None", cluster=cluster))


async def _set_policy(target: Target, name: str, policy: str, *, cluster: bool) -> None:
    from muster.actions.holding import set_stop_policy

    async with connect(target) as session:
        click.echo(await set_stop_policy(session, name, policy, cluster=cluster))


@command.command(
    short_help="Make a queue NAME with its own quota.",
    epilog=examples(
        "muster queue create vision --cpu 8 --memory 32Gi",
        "muster queue create speech --cpu 8 --cohort lab --borrow cpu=4",
        "muster queue create vision --gpus 4 --cpu 32 --dry-run",
    ),
)
@click.argument("name", type=name)
@click.option("--cpu", metavar="Q", type=quantity, help="CPUs, as 8.")
@click.option("--memory", metavar="Q", type=memory, help="Memory, as 32Gi.")
@click.option("--gpus", metavar="N", type=quantity, help="GPUs (nvidia.com/gpu).")
@click.option("--quota", metavar=_LIMIT, multiple=True, help="Any other resource; repeatable.")
@click.option(
    "--flavor", metavar="F", default="", help="The ResourceFlavor. [default: muster-nodes, or default-flavor]"
)
@click.option("--cohort", metavar="C", default="", help="Share unused quota with the other queues of cohort C.")
@click.option("--borrow", metavar=_LIMIT, multiple=True, help="Borrow at most so much; repeatable.")
@click.option("--lend", metavar=_LIMIT, multiple=True, help="Lend at most so much; repeatable.")
@click.option("--strict", is_flag=True, help="StrictFIFO: a job that does not fit blocks those behind it.")
@click.option(
    "--preempt",
    type=click.Choice(_WITHIN),
    default="LowerPriority",
    show_default=True,
    help="Which jobs of this queue its own may preempt.",
)
@click.option(
    "--reclaim",
    type=click.Choice(_RECLAIM),
    default="Any",
    show_default=True,
    help="Which borrowers it may preempt to take back its quota.",
)
@click.option("--weight", metavar="W", default="", help="For fair sharing.")
@click.option("--no-local", is_flag=True, help="Make no LocalQueue.")
@click.option("--dry-run", is_flag=True, help="Print what would be submitted, and submit nothing.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), default="yaml", help="Form of --dry-run.")
@target_options
def create(name: str, **options: Any) -> None:
    """Create a ClusterQueue NAME with its own quota, and a LocalQueue NAME in the namespace for its jobs.

    Jobs may request only resources of which the queue has a quota.
    """
    target = Target.of(options)
    if options["dry_run"]:
        from muster.cli.terminal.output import dump

        made = _make_documents(name, target.namespace or "default", options)
        if options["output"] == "json":
            click.echo(dump({"apiVersion": "v1", "kind": "List", "items": made}, "json"))
        else:
            click.echo("\n---\n".join(dump(document, "yaml") for document in made))
        return
    run(_create(target, name, options))


async def _create(target: Target, name: str, options: dict[str, Any]) -> None:
    async with connect(target) as session:
        if not options["flavor"]:
            options |= {"flavor": await _find_nodes_flavor(session)}
        made = _make_documents(name, session.namespace, options)
        # All objects are checked before the first one is stored.
        for document in made:
            await _submit(session, document, dry_run=True)
        for document in made:
            if await _submit(session, document, dry_run=False):
                click.echo(f"{document['kind'].lower()}/{document['metadata']['name']} created")


async def _find_nodes_flavor(session: Session) -> str:
    """Return the flavor of the queue that a fresh embedded cluster has; "" if there is none."""
    from muster.api.kueue import RESOURCE_FLAVOR
    from muster.api.ours.embedded import NODES_FLAVOR
    from muster.runtime.refusals import ignoring

    with ignoring("Forbidden"):  # creating the queue then fails with the same error
        if await session.client.find(RESOURCE_FLAVOR, NODES_FLAVOR) is not None:
            return NODES_FLAVOR
    return ""


async def _submit(session: Session, document: dict[str, Any], *, dry_run: bool) -> bool:
    """Create an object; return whether it is new. Only the flavor may exist already."""
    from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
    from muster.api.status import ApiError

    kind = next(kind for kind in (RESOURCE_FLAVOR, CLUSTER_QUEUE, LOCAL_QUEUE) if kind.kind == document["kind"])
    namespace = document["metadata"].get("namespace", "")
    try:
        await session.client.create(kind.seen_as(dict), document, namespace, dry_run=dry_run)
    except ApiError as error:
        if kind is RESOURCE_FLAVOR and error.reason == "AlreadyExists":
            return False
        raise
    return True


def _make_documents(name: str, namespace: str, options: dict[str, Any]) -> list[dict[str, Any]]:
    from muster.cli.actions.newqueue import USUAL_FLAVOR, NewQueue, documents

    quotas = _parse_quotas(options)
    if not quotas:
        raise click.UsageError("a queue needs a quota: --cpu, --memory, --gpus or --quota RESOURCE=QUANTITY")
    borrowing, lending = _parse_pairs(options["borrow"], "--borrow"), _parse_pairs(options["lend"], "--lend")
    if (borrowing or lending) and not options["cohort"]:
        raise click.UsageError("--borrow and --lend mean nothing without --cohort")
    for resource in (*borrowing, *lending):
        if resource not in quotas:
            raise click.UsageError(
                f"a limit of {resource} needs a quota of that resource, which may be 0: --quota {resource}=0"
            )
    return documents(
        NewQueue(
            name=name,
            quotas=quotas,
            namespace="" if options["no_local"] else namespace,
            flavor=options["flavor"] or USUAL_FLAVOR,
            cohort=options["cohort"],
            borrowing=borrowing,
            lending=lending,
            strict=options["strict"],
            within=options["preempt"],
            reclaim=options["reclaim"],
            weight=options["weight"],
        )
    )


@command.command(
    short_help="Change quota, limits or rules of ClusterQueue NAME.",
    epilog=examples(
        "muster queue edit vision --cpu 12 --memory 64Gi",
        "muster queue edit vision --cohort lab --borrow cpu=4",
        "muster queue edit vision --borrow cpu=unlimited",
        "muster queue edit vision --no-cohort --no-strict",
    ),
)
@click.argument("name", type=name, shell_complete=names.cluster_queues)
@click.option("--cpu", metavar="Q", type=quantity, help="CPUs, as 12.")
@click.option("--memory", metavar="Q", type=memory, help="Memory, as 64Gi.")
@click.option("--gpus", metavar="N", type=quantity, help="GPUs (nvidia.com/gpu).")
@click.option("--quota", metavar=_LIMIT, multiple=True, help="Any other resource; repeatable.")
@click.option(
    "--flavor", metavar="F", default="", help="Change the quota of this ResourceFlavor, if there are several."
)
@click.option("--cohort", metavar="C", type=name, help="Share with the queues of cohort C from now on.")
@click.option("--no-cohort", is_flag=True, help="Share with no others; borrow and lend limits go with that.")
@click.option("--borrow", metavar=_LIMIT, multiple=True, help="Borrow at most so much, or RES=unlimited; repeatable.")
@click.option("--lend", metavar=_LIMIT, multiple=True, help="Lend at most so much, or RES=unlimited; repeatable.")
@click.option("--strict/--no-strict", default=None, help="StrictFIFO: a job that does not fit blocks those behind it.")
@click.option("--preempt", type=click.Choice(_WITHIN), help="Which jobs of this queue its own may preempt.")
@click.option("--reclaim", type=click.Choice(_RECLAIM), help="Which borrowers it may preempt to take back its quota.")
@click.option("--weight", metavar="W", default="", help="For fair sharing.")
@click.option("--dry-run", is_flag=True, help="Let the server check the change, print the result, and store nothing.")
@target_options
def edit(name: str, dry_run: bool, **options: Any) -> None:
    """Change the given fields of ClusterQueue NAME; all other fields stay, and running jobs go on.

    If the jobs of the queue hold more than the new quota, no more jobs start from it until enough of them have ended.
    """
    from dataclasses import replace

    from muster.cli.actions.editedqueue import QueueEdit

    target = Target.of(options)
    if options["no_cohort"] and options["cohort"]:
        raise click.UsageError("--cohort and --no-cohort exclude each other")
    wanted = _make_edit(options)
    if replace(wanted, flavor="") == QueueEdit():
        raise click.UsageError("name a change, such as --cpu 12")
    run(_edit(target, name, wanted, dry_run=dry_run))


def _make_edit(options: dict[str, Any]) -> "QueueEdit":
    from muster.cli.actions.editedqueue import UNLIMITED, QueueEdit

    return QueueEdit(
        quotas=_parse_quotas(options),
        borrowing=_parse_pairs(options["borrow"], "--borrow", UNLIMITED),
        lending=_parse_pairs(options["lend"], "--lend", UNLIMITED),
        flavor=options["flavor"],
        cohort="" if options["no_cohort"] else options["cohort"],
        strict=options["strict"],
        within=options["preempt"] or "",
        reclaim=options["reclaim"] or "",
        weight=options["weight"],
    )


async def _edit(target: Target, name: str, wanted: "QueueEdit", *, dry_run: bool) -> None:
    from functools import partial

    from muster.actions import queues
    from muster.cli.actions.editedqueue import describe_excess, patch
    from muster.cli.terminal.output import dump, say

    async with connect(target) as session:
        try:
            after = await queues.edit(session, name, partial(patch, edit=wanted), dry_run=dry_run)
        except ValueError as error:
            raise click.ClickException(f"{name}: {error}") from None
    if after is None:
        click.echo(f"clusterqueue/{name} is unchanged")
    else:
        click.echo(dump(after["spec"], "yaml") if dry_run else f"clusterqueue/{name} changed")
        for sentence in describe_excess(after):
            say(sentence)


@command.command(
    short_help="Delete queue NAME, with the LocalQueues that lead to it.",
    epilog=examples("muster queue delete vision", "muster queue delete vision --yes"),
)
@click.argument("name", type=name, shell_complete=names.cluster_queues)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@target_options
def delete(name: str, yes: bool, **options: Any) -> None:
    """Delete ClusterQueue NAME with all its LocalQueues, or else LocalQueue NAME of the namespace.

    The command lists the jobs that use the queue before it asks. Running jobs go on; waiting jobs do not start any
    more.
    """
    from muster.actions import queues
    from muster.cli.terminal.asking import agreed

    target = Target.of(options)

    async def look() -> queues.Deletion:
        async with connect(target) as session:
            return await queues.deletion(session, name)

    async def act(what: queues.Deletion) -> None:
        async with connect(target) as session:
            for line in await queues.delete(session.client, what):
                click.echo(line)

    deletion = run(look())
    local = [f"localqueue/{one.metadata.name} of namespace {one.metadata.namespace} goes" for one in deletion.local]
    kind = "localqueue" if deletion.cluster is None else "clusterqueue"
    if not agreed(f"delete {kind}/{name}", [*local, *deletion.using], yes=yes):
        raise click.ClickException("nothing was done")
    run(act(deletion))


def _parse_quotas(options: dict[str, Any]) -> dict[str, str]:
    named = {"cpu": "cpu", "memory": "memory", "gpus": "nvidia.com/gpu"}
    given = {resource: options[option] for option, resource in named.items() if options[option]}
    return given | _parse_pairs(options["quota"], "--quota")


def _parse_pairs(texts: Sequence[str], option: str, word: str = "") -> dict[str, str]:
    """Return the quantity, or that word, of each resource."""
    values = {}
    for text in texts:
        resource, given, amount = text.partition("=")
        if not resource or not given or not amount:
            raise click.BadParameter(f"{text!r}: expected RESOURCE=QUANTITY, as cpu=8", param_hint=option)
        try:
            values[resource] = amount if amount == word else quantity(amount)
        except click.BadParameter as error:
            raise click.BadParameter(error.message, param_hint=option) from None
    return values
