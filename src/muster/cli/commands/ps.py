"""`muster ps`: the jobs and what they do."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import click

from muster.cli.completion import names
from muster.cli.names.examples import examples
from muster.cli.names.types import name
from muster.cli.session import Target, connect, run, target_options

# All that `muster.insight.jobstate` knows, in the order of a job's life.
STATES = (
    "Queued", "Checking", "Held", "Suspended", "Pending", "Starting", "Running", "Retrying", "Evicting",
    "Finishing", "Completed", "Failed", "Cancelled", "Deleting",
)  # fmt: skip


@click.command(
    epilog=examples(
        "muster ps",
        "muster ps train tune",
        "muster ps --state Queued --state Running --queue vision",
        "muster ps -A -o wide      # of all namespaces, with all columns",
    ),
)
@click.argument("jobs", nargs=-1, type=name, metavar="[JOB]...", shell_complete=names.jobs)
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces.")
@click.option(
    "--state",
    "states",
    metavar="STATE",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only jobs in this state; may be repeated.",
)
@click.option(
    "-q", "--queue", metavar="Q", default="", help="Only jobs of this LocalQueue.", shell_complete=names.local_queues
)
@click.option("-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="Another form.")
@target_options
def command(all_namespaces: bool, output: str | None, **options: Any) -> None:
    """List jobs, or those that are named, with state, pods, queue, position in it, reason and age."""
    run(_ps(Target.of(options), options, output or "", everywhere=all_namespaces))


async def _ps(target: Target, only: Mapping[str, Any], output: str, *, everywhere: bool) -> None:
    from muster.cli.names.choices import no_job
    from muster.cli.terminal.output import say
    from muster.insight.reader.jobs import job_rows
    from muster.runtime.clock import RealClock

    async with connect(target) as session:
        found = await job_rows(session.client, "" if everywhere else session.namespace, RealClock().now(), say)
        missing = [one for one in dict.fromkeys(only["jobs"]) if one not in {row["name"] for row in found}]
        for one in missing:
            say(f"Error: {await no_job(session.client, one, '' if everywhere else session.namespace)}")
    rows = selected(found, only["jobs"], only["states"], only["queue"])
    if rows or not missing:
        _show(rows, output, everywhere=everywhere)
    if missing:
        raise click.exceptions.Exit(1)


def selected(
    rows: Iterable[dict[str, Any]], jobs: Collection[str], states: Collection[str], queue: str
) -> list[dict[str, Any]]:
    """Those of all these jobs, states and queues; empty means any."""
    return [
        row
        for row in rows
        if (not jobs or row["name"] in jobs)
        and (not states or row["state"] in states)
        and (not queue or row["queue"] == queue)
    ]


def _show(rows: list[dict[str, Any]], output: str, *, everywhere: bool) -> None:
    if output in ("json", "yaml"):
        from muster.cli.terminal.output import dump

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
    from muster.cli.terminal.output import terminal_width
    from muster.insight.text import table

    first = {"NAMESPACE": "namespace"} if everywhere else {}
    columns = first | _COLUMNS | (_WIDE if wide else {}) | {"REASON": "reason"}
    cells = [row | {"pods": f"{row['ready']}/{row['wanted']}", "nodes": ",".join(row["nodes"])} for row in rows]
    lines = [[_cell(row[field], field) for field in columns.values()] for row in cells]
    click.echo(table(list(columns), lines, width=terminal_width()))


def _cell(value: Any, field: str) -> str:
    empty = "" if field == "reason" else "-"
    return empty if value is None or value == "" else str(value)
