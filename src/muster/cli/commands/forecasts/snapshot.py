"""`muster snapshot`: print what scheduling reads of a cluster, for a simulation that starts from it."""

from typing import Any

import click

from muster.actions.server.session import Target
from muster.cli.names.examples import format_examples
from muster.cli.session import connect, run, target_options


@click.command(
    epilog=format_examples("muster snapshot > state.yaml", "muster snapshot --kubeconfig prod.kubeconfig > state.yaml"),
)
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="Output format.")
@click.option("--with-decisions", is_flag=True, help="Add the decisions about each job, the newest first.")
@target_options
def command(output: str, *, with_decisions: bool, **options: Any) -> None:
    """Print the nodes, queues, unfinished workloads and pods of a cluster, all as of one moment.

    `muster simulate` can start from the printed snapshot: name its file in `spec.state` of a scenario. The snapshot
    contains no environment variables, commands, images, or annotations of users. If you may not list a kind, the
    command says so and omits it.
    """
    run(_print_snapshot(Target.of(options), output, with_decisions=with_decisions))


async def _print_snapshot(target: Target, output: str, *, with_decisions: bool) -> None:
    """Print a snapshot of the cluster, and report on stderr what the snapshot lacks.

    output: `yaml` or `json`.
    """
    from muster.cli.terminal.output import dump, dump_line, say
    from muster.insight.reader.history.decisions import NO_DECISIONS
    from muster.insight.reader.snapshot import add_decisions, take_snapshot
    from muster.insight.snapshot import write_snapshot
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        snapshot = await take_snapshot(session.client, RealClock().now(), session.namespace)
        if with_decisions:
            snapshot = await add_decisions(session.client, snapshot, session.namespace)
    document = write_snapshot(snapshot)
    if output == "json":
        click.echo(dump(document, "json"))
    else:  # one object on each line is YAML, too, and takes a hundredth of the time of blocks
        spec = document["spec"]
        lists = {field: spec.pop(field) for field in ("items", "decisions") if field in spec}
        lines = [dump(document, "yaml")]
        for field, entries in lists.items():
            lines += (f"  {field}:" if entries else f"  {field}: []", *(f"  - {dump_line(one)}" for one in entries))
        click.echo("\n".join(lines))
    if with_decisions and snapshot.decisions is None:
        say(NO_DECISIONS)
    for kind, why in snapshot.missing.items():
        say(f"without {kind}: {why}")
    if not snapshot.exact:
        say("the server does not return lists of a former revision: the objects are of slightly different moments")
