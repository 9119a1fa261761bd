"""`muster history`: list the jobs that ran."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.selecting import add_selection_options
from muster.cli.names.types import parse_job_name
from muster.cli.session import ask, connect, say_unexpected_cluster, target_options

# A copy from `muster.insight.history.runs`, whose import is slow.
STATES = ("Completed", "Failed", "Cancelled", "Deleted")
_LIMIT = 100


@click.command(
    epilog=format_examples(
        "muster history",
        "muster history --since today --state Failed",
        "muster history 'train-*' --user ada --since 7d -o wide",
        "muster history --since 2026-01-01 --limit 0 -o csv > this-year.csv",
        "muster history -A --limit 0 -o jsonl > simulate-this.jsonl",
    ),
)
@click.argument("patterns", nargs=-1, type=parse_job_name, metavar="[NAME]...", shell_complete=names.complete_jobs)
@click.option("-A", "--all-namespaces", is_flag=True, help="List jobs of all namespaces.")
@click.option(
    "--since",
    metavar="WHEN",
    help="Only jobs that ended since this time, such as 2h (ago), 3d, today or 2026-01-31T14:00.",
)
@click.option("--until", metavar="WHEN", help="Only jobs that were submitted before this time.")
@add_selection_options(
    "Only jobs", STATES, by_state=f"Only jobs that ended in this state ({', '.join(STATES)}). Can be repeated."
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(0),
    default=_LIMIT,
    show_default=True,
    help="List only the newest N jobs. 0 lists all.",
)
@click.option(
    "-o", "--output", type=click.Choice(["wide", "json", "jsonl", "csv"]), help="Output format (default: text)."
)
@target_options
def command(patterns: tuple[str, ...], all_namespaces: bool, output: str | None, **options: Any) -> None:
    """List ended jobs, including deleted jobs, with the newest last.

    `muster ps` lists unfinished jobs, and `muster ps -a` lists both. NAME may contain stars, as in 'train-*'.
    """
    from muster.runtime.realclock import RealClock

    now = RealClock().now().astimezone()
    limits = {which: _parse_moment(which, options[which], now) for which in ("since", "until")}
    ask(_print_history(Target.of(options), patterns, options | limits, output or "", everywhere=all_namespaces))


def _parse_moment(which: str, text: str | None, now: datetime) -> datetime | None:
    from muster.cli.names.moments import parse_moment

    try:
        return parse_moment(text, now) if text is not None else None
    except click.BadParameter as error:
        error.param_hint = f"--{which}"
        raise


async def _print_history(
    target: Target, patterns: Sequence[str], options: Mapping[str, Any], output: str, *, everywhere: bool
) -> None:
    """Print the newest runs whose job matches a pattern and the options, the newest last."""
    from muster.cli.terminal.output import say
    from muster.insight.history.runs import RunQuery, make_row
    from muster.insight.reader.history.recorded import read_history

    async with connect(target) as session:
        wanted = RunQuery(
            namespace="" if everywhere else session.namespace,
            names=tuple(patterns),
            owner=options["user"],
            queue=options["queue"],
            states=options["states"],
            since=options["since"],
            until=options["until"],
        )
        runs, is_cut = await read_history(session.client, wanted, options["limit"], say)
        if not runs:
            say_unexpected_cluster(session)
    _show([make_row(run) for run in reversed(runs)], output, everywhere=everywhere)
    if is_cut:
        say(f"the newest {len(runs)}; there are more: --limit N, or 0 for all")


def _show(rows: list[dict[str, Any]], output: str, *, everywhere: bool) -> None:
    if output == "json":
        from muster.cli.terminal.output import dump

        click.echo(dump(rows, "json"))
    elif output == "jsonl":
        from muster.cli.terminal.output import dump_line

        for one in rows:
            click.echo(dump_line(one))
    elif output == "csv":
        from muster.insight.history.csvfile import format_csv

        click.echo(format_csv(rows), nl=False)
    elif not rows:
        click.echo("no such job has ended; to list unfinished jobs: muster ps", err=True)
    else:
        from muster.cli.terminal.output import terminal_width
        from muster.cli.terminal.runs import as_table

        click.echo(as_table(rows, everywhere=everywhere, wide=output == "wide", width=terminal_width()))
