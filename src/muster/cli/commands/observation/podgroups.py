"""`muster podgroups`: show groups of pods that start together, and why they wait."""

from typing import Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.suggesting import SuggestingGroup
from muster.cli.names.types import parse_job_name
from muster.cli.session import connect, run, target_options


@click.group(
    cls=SuggestingGroup,
    epilog=format_examples("muster podgroups list", "muster podgroups describe train"),
)
def command() -> None:
    """List and describe PodGroups of all kinds.

    A PodGroup sets how many of its pods must start together. It is Waiting while too few pods have a node, and Ready
    when enough pods have one. It is Broken if it has lost too many pods to become Ready again, Failed if its policy
    ended it, and Done when enough pods have succeeded.
    """


@command.command(
    "list",
    short_help="List PodGroups with their state, minimum, pods and reason.",
    epilog=format_examples("muster podgroups list", "muster podgroups list -A -o wide"),
)
@click.option("-A", "--all-namespaces", is_flag=True, help="List PodGroups of all namespaces.")
@click.option(
    "-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="Output format (default: text)."
)
@target_options
def list_(all_namespaces: bool, output: str | None, **options: Any) -> None:
    """List PodGroups, and the missing PodGroups that pods wait for."""
    run(_list(Target.of(options), output or "", everywhere=all_namespaces))


async def _list(target: Target, output: str, *, everywhere: bool) -> None:
    from muster.cli.terminal.output import say
    from muster.insight.jobs.podgroups import make_row
    from muster.insight.reader.jobs.podgroups import pod_groups
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        groups = await pod_groups(session.client, "" if everywhere else session.namespace, say)
    now = RealClock().now()
    rows = [make_row(view, now) for view in groups]
    if output in ("json", "yaml"):
        from muster.cli.terminal.output import dump

        click.echo(dump(rows, output))
    elif output == "name":
        for each in rows:
            click.echo(each["name"])
    elif rows:
        _print(rows, everywhere=everywhere, wide=output == "wide")
    else:
        click.echo("no PodGroups", err=True)


# The field below each heading.
_COLUMNS = {"NAME": "name", "STATE": "state", "MIN": "minimum", "PODS": "pods", "BOUND": "bound", "RUNNING": "running"}
_WIDE = {"SUCCEEDED": "succeeded", "FAILED": "failed", "KIND": "kind"}


def _print(rows: list[dict[str, Any]], *, everywhere: bool, wide: bool) -> None:
    from muster.cli.terminal.output import terminal_width
    from muster.insight.text import format_table

    first = {"NAMESPACE": "namespace"} if everywhere else {}
    columns = first | _COLUMNS | (_WIDE if wide else {}) | {"AGE": "age", "REASON": "reason"}
    cells = [[_format_cell(each[field], field) for field in columns.values()] for each in rows]
    click.echo(format_table(list(columns), cells, width=terminal_width()))


def _format_cell(value: Any, field: str) -> str:
    empty = "" if field == "reason" else "-"
    return empty if value is None or value == "" else str(value)


@command.command(
    short_help="Show a PodGroup, its pods and its events.",
    epilog=format_examples("muster podgroups describe train", "muster podgroups describe train -o json"),
)
@click.argument("name", type=parse_job_name, shell_complete=names.complete_pod_groups)
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Output format (default: text).")
@target_options
def describe(name: str, output: str | None, **options: Any) -> None:
    """Show the requests of PodGroup NAME, the state of each of its pods, and its events."""
    run(_describe(Target.of(options), name, output or ""))


async def _describe(target: Target, name: str, output: str) -> None:
    from muster.cli.actions.describing import describe_groups, render_details
    from muster.cli.terminal.output import dump
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        documents, names = await describe_groups(session.client, session.namespace, name, RealClock().now())
        if not documents:
            raise click.ClickException(_explain_missing(name, session.namespace, names))
    click.echo(dump(documents, output) if output else render_details(documents))


def _explain_missing(name: str, namespace: str, there: list[str]) -> str:
    from muster.insight.nearest import find_nearest

    meant = find_nearest(name, there)
    return f"there is no PodGroup {name} in namespace {namespace}" + (f"; did you mean {meant}?" if meant else "")
