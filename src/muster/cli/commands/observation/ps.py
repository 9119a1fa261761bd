"""`muster ps`: list the jobs and their states."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import click

from muster.actions.server.session import Session, Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import parse_job_name
from muster.cli.session import ask, connect, run, say_unexpected_cluster, target_options

# All states of `muster.insight.jobs.state`, in the order of a job's life.
STATES = (
    "Queued", "Checking", "Held", "Suspended", "Pending", "Starting", "Running", "Retrying", "Evicting",
    "Finishing", "Cancelling", "Completed", "Failed", "Cancelled", "Deleting",
)  # fmt: skip

# The final states of a job.
OVER = ("Completed", "Failed", "Cancelled")
# How long a job is listed after its end, unless the user selects it or all jobs.
_RECENT = timedelta(hours=1)
# The maximum number of deleted jobs to list.
_PAST = 1_000

# Fields that change as time passes.
_TICKING = {"age": "", "runSeconds": None, "cpusUsed": "", "memoryUsed": "", "gpusUsed": "", "gpuMemoryUsed": ""}


@click.command(
    epilog=format_examples(
        "muster ps",
        "muster ps train tune",
        "muster ps --state Queued --state Running --queue vision",
        "muster ps --user ada",
        "muster ps -A -o wide      # all namespaces, all columns",
        "muster ps -a              # also jobs that ended long ago, and deleted jobs",
        "muster ps tune --trials --state Failed",
        "muster ps -w              # on the whole terminal, updated at every change",
    ),
)
@click.argument("jobs", nargs=-1, type=parse_job_name, metavar="[JOB]...", shell_complete=names.complete_jobs)
@click.option("-A", "--all-namespaces", is_flag=True, help="List jobs of all namespaces.")
@click.option(
    "-a",
    "--all",
    "past",
    is_flag=True,
    help="Also list jobs that ended more than an hour ago, and deleted jobs.",
)
@click.option(
    "--state",
    "states",
    metavar="STATE",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only jobs in this state. Can be repeated.",
)
@click.option(
    "-q",
    "--queue",
    metavar="Q",
    default="",
    help="Only jobs of this LocalQueue.",
    shell_complete=names.complete_local_queues,
)
@click.option("-u", "--user", metavar="NAME", default="", help="Only jobs that this user submitted.")
@click.option("--trials", is_flag=True, help="List the trials of a sweep, each with its state.")
@click.option("-w", "--watch", is_flag=True, help="Update the list at every change, until Ctrl-C.")
@click.option(
    "-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="Output format (default: text)."
)
@target_options
def command(all_namespaces: bool, watch: bool, trials: bool, output: str | None, **options: Any) -> None:
    """List jobs with their state, pods, queue, position in the queue, age and reason.

    Unfinished jobs come first, and then the jobs that ended in the last hour, each with the newest last. Jobs that you
    name, or select by state, are listed even if they ended earlier. With -o json, yaml or name, all jobs are listed.

    For a job that waits for quota, the reason shows the amount that was missing at the last admission attempt. `muster
    why JOB` shows the amount that is missing now.
    """
    if trials:
        from muster.cli.actions.trials import show_trials

        if watch:
            raise click.UsageError("--trials cannot watch; follow a sweep with: muster logs -f JOB")
        if all_namespaces or len(options["jobs"]) != 1:
            raise click.UsageError("--trials needs the name of one sweep: muster ps JOB --trials")
        ask(show_trials(Target.of(options), options["jobs"][0], options["states"], output or ""))
        return
    if watch and options["past"]:
        raise click.UsageError("--watch and --all exclude each other: deleted jobs do not change")
    if not watch:
        ask(_print_jobs(Target.of(options), options, output or "", everywhere=all_namespaces))
    elif output in (None, "wide"):
        run(_watch(Target.of(options), options, everywhere=all_namespaces, wide=output == "wide"))
    else:
        raise click.UsageError(f"--watch shows a table, and nothing as {output}")


async def _print_jobs(target: Target, only: Mapping[str, Any], output: str, *, everywhere: bool) -> None:
    """Print the jobs once. Raises `click.exceptions.Exit` with code 1 if a named job does not exist.

    only: the options that select jobs.
    output: the format of `-o`; "" for the short table.
    """
    from muster.cli.terminal.output import say
    from muster.insight.reader.engine import say_if_not_led
    from muster.insight.reader.jobs.rows import job_rows
    from muster.runtime.process.garbage import collector_paused
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        where, now = "" if everywhere else session.namespace, RealClock().now()
        with collector_paused():
            listed_rows = await job_rows(session.client, where, now, say)
        if only["past"]:
            listed_rows = await _add_past(session, listed_rows, where, now)
        missing = [one for one in dict.fromkeys(only["jobs"]) if one not in {row["name"] for row in listed_rows}]
        if missing:
            from muster.actions.jobs.lookup import explain_missing_job  # importing it is slow

            for one in missing:
                say(f"Error: {await explain_missing_job(session.client, one, where)}")
        rows = select_rows(listed_rows, only["jobs"], only["states"], only["queue"], only["user"])
        await _require_queue(session, only["queue"], listed_rows, where)
        await say_if_not_led(session.client, [row["state"] for row in rows], now, say)
        if not rows:
            say_unexpected_cluster(session)
        if output == "wide":
            rows = await _add_usage(session, rows, where, say)
    shown = arrange(rows, find_earliest_end(only, output, now))
    older = len(rows) - len(shown)
    if shown or not (missing or (older and not output)):
        _show(shown, output, everywhere=everywhere)
    if older:
        say(f"{older} {'job' if older == 1 else 'jobs'} ended over an hour ago: muster ps --all")
    if missing:
        raise click.exceptions.Exit(1)


async def _require_queue(session: Session, queue: str, rows: Iterable[dict[str, Any]], where: str) -> None:
    """Raise `click.ClickException` if `queue` is not "", no queue has this name, and no row names it.

    where: the namespace; "" for all.
    """
    if not queue or any(row["queue"] == queue for row in rows):
        return
    from muster.actions.choices import describe_missing_queue

    if problem := await describe_missing_queue(session.client, queue, where):
        raise click.ClickException(problem)


async def _add_usage(
    session: Session, rows: list[dict[str, Any]], where: str, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return the rows with the current use of CPU, memory and GPUs by the pods of each job; `-` if it is unknown.

    where: the namespace; "" for all.
    say: receives a remark if the user may not see the use.
    """
    from muster.insight.reader.usage import read_usage
    from muster.insight.usage import format_cpus, format_gpus, format_memory, usage_by_job

    runs = any(row["ready"] for row in rows if row["state"] not in OVER)
    usage = usage_by_job(await read_usage(session.client, where, say) if runs else ())
    used = [usage.get((row["namespace"], row["name"])) for row in rows]
    return [
        row
        | {"cpusUsed": format_cpus(one), "memoryUsed": format_memory(one)}
        | dict(zip(_GPUS.values(), format_gpus(one), strict=True))
        for row, one in zip(rows, used, strict=True)
    ]


async def _add_past(session: Session, rows: list[dict[str, Any]], where: str, now: datetime) -> list[dict[str, Any]]:
    """Return the rows, followed by the rows of the newest deleted jobs in the history.

    A remark is printed if there are more deleted jobs, or no history.
    """
    from muster.cli.terminal.output import say
    from muster.insight.history.runs import RunQuery
    from muster.insight.reader.history.recorded import read_history
    from muster.insight.reader.jobs.rows import past_row

    runs, is_cut = await read_history(session.client, RunQuery(namespace=where), _PAST, say)
    if is_cut:
        say(f"only some of the newest {_PAST} deleted jobs are shown: muster history lists all")
    known = {row["uid"] for row in rows}
    past = [past_row(run, now) for run in runs if run.uid not in known]
    return [*rows, *past]


async def _watch(target: Target, only: Mapping[str, Any], *, everywhere: bool, wide: bool) -> None:
    """Show jobs until the user leaves: on a terminal all jobs, unfinished ones first; in a pipe each changed row.

    only: the names, states, queue and user that select jobs.
    wide: whether to show all columns.
    """
    from muster.actions.server.session import describe_outage
    from muster.actions.watching import Watch, survive_outages
    from muster.api.batch import JOB
    from muster.api.core import POD
    from muster.api.jobset import JOB_SET
    from muster.api.kueue import WORKLOAD
    from muster.cli.actions.watching import show
    from muster.cli.terminal.output import say
    from muster.cli.terminal.readers import while_read
    from muster.cli.terminal.screen import can_show
    from muster.insight.reader.engine import say_if_not_led
    from muster.insight.reader.jobs.rows import job_rows
    from muster.runtime.ids import Random
    from muster.runtime.realclock import RealClock

    kinds = (JOB, JOB_SET, WORKLOAD, POD)

    async def rows(session: Session, tell: Callable[[str], None]) -> list[dict[str, Any]]:
        now, where = RealClock().now(), "" if everywhere else session.namespace
        all_rows = await job_rows(session.client, where, now, tell)
        wanted = select_rows(all_rows, only["jobs"], only["states"], only["queue"], only["user"])
        await say_if_not_led(session.client, [row["state"] for row in wanted], now, tell)
        return await _add_usage(session, wanted, where, tell) if wide else wanted

    async def picture(session: Session, tell: Callable[[str], None]) -> str:
        now = RealClock().now()
        shown_rows = sort_unfinished_first(arrange(await rows(session, tell), find_earliest_end(only, "", now)))
        return _render_table(shown_rows, everywhere=everywhere, wide=wide, on_screen=True) if shown_rows else "no jobs"

    if can_show():
        await show(target, "muster ps", kinds, picture, everywhere=everywhere)
        return
    known: dict[tuple[str, str], dict[str, Any]] = {}
    printed: dict[str, None] = {}
    has_header = False

    def tell(text: str) -> None:
        if text not in printed:
            printed[text] = None
            say(text)

    async with connect(target) as session:

        async def look() -> None:
            nonlocal has_header
            since = find_earliest_end(only, "", RealClock().now())
            if changed_rows := arrange(find_changed(await rows(session, tell), known), since):
                header, _, lines = _render_table(changed_rows, everywhere=everywhere, wide=wide).partition("\n")
                click.echo(lines if has_header else f"{header}\n{lines}")
                has_header = True

        where = "" if everywhere else session.namespace
        watch = Watch(session.client, RealClock(), Random(), kinds, where)
        await while_read(watch.run(survive_outages(look, partial(describe_outage, target), say)))


def find_earliest_end(only: Mapping[str, Any], output: str, now: datetime) -> datetime | None:
    """Return the earliest end of the jobs to list; None if the options select jobs that may have ended long ago.

    Programs read json, yaml and name. There a job must not disappear only because time passes.
    """
    selects_old = only["past"] or only["jobs"] or only["states"] or output in ("json", "yaml", "name")
    return None if selects_old else now - _RECENT


def arrange(rows: Iterable[dict[str, Any]], since: datetime | None) -> list[dict[str, Any]]:
    """Return the unfinished jobs in the order of the rows, then the ended jobs in the order of their ends.

    since: the time before which ended jobs are left out; None for no limit.
    """
    going, ended = _split_by_end(rows)
    recent = [row for row in ended if since is None or row["ended"] is None or row["ended"] >= since]
    last = datetime.max.replace(tzinfo=UTC)
    return going + sorted(recent, key=lambda row: (row["ended"] or last, row["name"]))


def _split_by_end(rows: Iterable[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of unfinished jobs, and the rows of ended or deleted jobs."""
    parts: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for row in rows:
        parts[row["state"] in (*OVER, "Deleted")].append(row)
    return parts


def sort_unfinished_first(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of unfinished jobs, then the rows of ended jobs in reverse order.

    `arrange` sorts the ends from old to new. So a screen that is too small cuts off the jobs that ended first.
    """
    going, ended = _split_by_end(rows)
    return going + ended[::-1]


def find_changed(rows: Iterable[dict[str, Any]], known: dict[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that are new, differ in more than age and usage, or were deleted; replace `known`.

    known: the rows of the last call, by namespace and name.
    """
    now = {(row["namespace"], row["name"]): row for row in rows}
    changed_rows = [row for key, row in now.items() if known.get(key, {}) | _TICKING != row | _TICKING]
    deleted_rows = [row | {"state": "Deleted", "reason": ""} for key, row in known.items() if key not in now]
    known.clear()
    known.update(now)
    return changed_rows + deleted_rows


def select_rows(
    rows: Iterable[dict[str, Any]], jobs: Collection[str], states: Collection[str], queue: str, user: str
) -> list[dict[str, Any]]:
    """Return the rows with one of these names, one of these states, this queue and this user.

    An empty argument matches any row.
    """
    from muster.api.ours.users import is_user

    return [
        row
        for row in rows
        if (not jobs or row["name"] in jobs)
        and (not states or row["state"] in states)
        and queue in ("", row["queue"])
        and (not user or is_user(user, row["owner"]))
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
        click.echo(_render_table(rows, everywhere=everywhere, wide=output == "wide"))


# The field below each heading.
_COLUMNS = {"NAME": "name", "STATE": "state", "PODS": "pods", "QUEUE": "queue", "POS": "position", "AGE": "age"}
_WIDE = {
    "SUBMITTED": "submitted", "TIME": "runSeconds", "CPU USED": "cpusUsed", "MEMORY USED": "memoryUsed",
    "PRIORITY": "priority", "CLUSTERQUEUE": "clusterQueue", "NODES": "nodes",
}  # fmt: skip

_GPUS = {"GPU USED": "gpusUsed", "GPU MEMORY": "gpuMemoryUsed"}

# The columns that a narrow screen omits, in this order, and the smallest width of a name there.
_SPARE, _LEAST_NAME = ("POS", "QUEUE", "PODS", "AGE"), 20


def _render_table(rows: list[dict[str, Any]], *, everywhere: bool, wide: bool, on_screen: bool = False) -> str:
    """Return the table of jobs.

    on_screen: whether a full screen shows it, which cuts lines instead of wrapping them.
    """
    from muster.cli.terminal.output import terminal_width
    from muster.insight.text import format_owner, format_table

    first = {"NAMESPACE": "namespace"} if everywhere else {}
    cluster = {"CLUSTER": "cluster"} if any(row["cluster"] for row in rows) else {}
    owner = {"OWNER": "owner"} if wide or len({row["owner"] for row in rows} - {""}) > 1 else {}
    gpus = _GPUS if any(row.get("gpusUsed", "-") != "-" for row in rows) else {}
    columns = first | _COLUMNS | cluster | owner | (_WIDE | gpus if wide else {}) | {"REASON": "reason"}
    cells = [row | {"pods": f"{row['ready']}/{row['wanted']}", "nodes": ",".join(row["nodes"])} for row in rows]
    if not wide:
        cells = [row | {"owner": format_owner(row["owner"])} for row in cells]
    table: Mapping[str, Sequence[str]] = {
        name: [_format_cell(row[field], field) for row in cells] for name, field in columns.items()
    }
    width = terminal_width()
    if on_screen and not wide:
        table = fit_columns(table, width)
    return format_table(list(table), list(zip(*table.values(), strict=True)), width=width)


def fit_columns(table: Mapping[str, Sequence[str]], width: int) -> dict[str, Sequence[str]]:
    """Return the columns that fit next to each other, one space apart; the last column has lines of its own.

    The columns in `_SPARE` are omitted first; then long names are cut.

    table: the cells below each heading.
    """
    from muster.insight.text import shorten

    names = table["NAME"]
    widths = {name: max(map(len, (name, *cells))) + 1 for name, cells in [*table.items()][:-1] if name != "NAME"}
    least = min(max(map(len, names)), _LEAST_NAME)
    omitted = set()
    for name in _SPARE:
        if sum(widths.values()) + least > width:
            del widths[name]
            omitted.add(name)
    most = max(width - sum(widths.values()), _LEAST_NAME)
    fitted = {**table, "NAME": [shorten(name, most) for name in names]}
    return {name: cells for name, cells in fitted.items() if name not in omitted}


def _format_cell(value: Any, field: str) -> str:
    if value is None or value == "":
        return "" if field == "reason" else "-"
    if field == "submitted":
        return f"{value.astimezone():%Y-%m-%d %H:%M:%S}"
    if field in ("owner", "runSeconds"):
        from muster.insight.text import escape_controls, format_duration

        return format_duration(value) if field == "runSeconds" else escape_controls(value)
    return str(value)
