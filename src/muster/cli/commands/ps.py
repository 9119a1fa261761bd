"""`muster ps`: the jobs and what they do."""

from typing import Any

import click

from muster.cli.examples import examples
from muster.cli.session import Target, connect, run, target_options


@click.command(
    epilog=examples("muster ps", "muster ps -A -o wide      # of all namespaces, with all columns"),
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces.")
@click.option("-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="Another form.")
@target_options
def command(all_namespaces: bool, output: str | None, **options: Any) -> None:
    """List jobs with state, pods, queue, position in it, reason and age."""
    run(_ps(Target.of(options), output or "", everywhere=all_namespaces))


async def _ps(target: Target, output: str, *, everywhere: bool) -> None:
    from muster.cli.output import say
    from muster.insight.reader.jobs import job_rows
    from muster.runtime.clock import RealClock

    async with connect(target) as session:
        rows = await job_rows(session.client, "" if everywhere else session.namespace, RealClock().now(), say)
    if output in ("json", "yaml"):
        from muster.cli.output import dump

        click.echo(dump(rows, output))
    elif output == "name":
        for row in rows:
            click.echo(row["name"])
    elif not rows:
        click.echo("no jobs", err=True)
    else:
        _print(rows, everywhere=everywhere, wide=output == "wide")


# Heading, and what stands below it.
_COLUMNS = {"NAME": "name", "STATE": "state", "PODS": "pods", "QUEUE": "queue", "POS": "position", "AGE": "age"}
_WIDE = {"PRIORITY": "priority", "CLUSTERQUEUE": "clusterQueue", "NODES": "nodes"}


def _print(rows: list[dict[str, Any]], *, everywhere: bool, wide: bool) -> None:
    from muster.cli.output import terminal_width
    from muster.insight.text import table

    first = {"NAMESPACE": "namespace"} if everywhere else {}
    columns = first | _COLUMNS | (_WIDE if wide else {}) | {"REASON": "reason"}
    cells = [row | {"pods": f"{row['ready']}/{row['wanted']}", "nodes": ",".join(row["nodes"])} for row in rows]
    lines = [[_cell(row[field], field) for field in columns.values()] for row in cells]
    click.echo(table(list(columns), lines, width=terminal_width()))


def _cell(value: Any, field: str) -> str:
    empty = "" if field == "reason" else "-"
    return empty if value is None or value == "" else str(value)
