"""Show the state of each trial of a sweep."""

from collections.abc import Collection, Sequence
from typing import Any

import click

from muster.actions.jobs.lookup import get_job
from muster.actions.server.session import Target
from muster.cli.session import connect
from muster.cli.terminal.output import dump, terminal_width
from muster.insight.jobs.trials import make_trial_rows
from muster.insight.reader.history.recorded import recall_job
from muster.insight.reader.jobs.pods import read_own_pods
from muster.insight.text import format_span, format_table
from muster.runtime.realclock import RealClock


async def show_trials(target: Target, name: str, states: Collection[str], output: str) -> None:
    """Print the trials of a sweep that are in these states; an empty collection selects all.

    Raises `click.ClickException` if the job is no sweep, and `ApiError`.

    output: `json`, `yaml` or `name`; "" for a table.
    """
    async with connect(target) as session:
        job = await get_job(session.client, name, session.namespace)
        if job.array is None:
            raise click.ClickException(f"{name} is no sweep: it has no trials")
        mine = await read_own_pods(session.client, job)
        job = await recall_job(session.client, job, mine)
    rows = [row for row in make_trial_rows(job, mine, RealClock().now()) if not states or row["state"] in states]
    if output in ("json", "yaml"):
        click.echo(dump(rows, output))
    elif output == "name":
        click.echo("".join(f"{row['index']}\n" for row in rows), nl=False)
    elif rows:
        click.echo(_render_table(rows))
    else:
        click.echo("no trials", err=True)


def _render_table(rows: Sequence[dict[str, Any]]) -> str:
    names = list(rows[0]["values"])
    again = any(row["tries"] > 1 for row in rows)
    header = ["INDEX", *names, "STATE", *(["TRY"] if again else []), "TIME", "NODE", "REASON"]
    lines = [
        [
            str(row["index"]),
            *row["values"].values(),
            row["state"],
            *([str(row["tries"])] if again else []),
            "-" if row["seconds"] is None else format_span(row["seconds"]),
            row["node"] or "-",
            row["reason"],
        ]
        for row in rows
    ]
    return format_table(header, lines, width=terminal_width())
