"""`muster snapshot`: print what scheduling reads of a cluster, for a simulation that starts from it."""

from typing import Any

import click

from muster.actions.server.session import Target
from muster.cli.names.examples import format_examples
from muster.cli.session import connect, run, target_options


@click.command(
    epilog=format_examples("muster snapshot > state.yaml", "muster snapshot --kubeconfig prod.kubeconfig > state.yaml"),
)
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="The form.")
@click.option("--with-decisions", is_flag=True, help="Add what was decided about each job, the newest first.")
@target_options
def command(output: str, *, with_decisions: bool, **options: Any) -> None:
    """Print nodes, queues, unfinished workloads and their pods, as of one moment.

    `muster simulate` starts from it: `spec.state` of a scenario names the file. It holds neither environment, commands
    nor images, and no annotations of users. What you may not list is named and left out.
    """
    run(_print_snapshot(Target.of(options), output, with_decisions=with_decisions))


async def _print_snapshot(target: Target, output: str, *, with_decisions: bool) -> None:
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
