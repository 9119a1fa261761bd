"""`muster cancel`: end jobs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from muster.actions.server.session import Target
from muster.cli.commands.observation.ps import OVER, STATES
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.selecting import add_selection_options
from muster.cli.names.types import name_or_cron_job
from muster.cli.session import ask, connect, target_options

if TYPE_CHECKING:
    from muster.api.kinds import Kind


@click.command(
    epilog=format_examples(
        "muster cancel train",
        "muster cancel train tune -n lab",
        "muster cancel train --delete",
        "muster cancel tune --index 3,5-7",
        "muster cancel --queue vision --state Queued",
        "muster cancel -l sweep=lr --yes",
        "muster cancel --all",
    ),
)
@click.argument("jobs", nargs=-1, type=name_or_cron_job, metavar="[JOB]...", shell_complete=names.complete_jobs)
@click.option("--all", "everything", is_flag=True, help="Cancel all jobs of the namespace.")
@click.option(
    "-l", "--selector", metavar="LABELS", default="", help="Cancel the jobs with these labels, such as team=vision."
)
@add_selection_options("Cancel the jobs", STATES, by_state="Cancel the jobs in this state. Can be repeated.")
@click.option(
    "--index", metavar="N,N-M", default="", help="Cancel only these trials of the sweep JOB. The other trials continue."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation if options select the jobs.")
@click.option("--delete", is_flag=True, help="Also delete the jobs and their output.")
@target_options
def command(jobs: tuple[str, ...], delete: bool, yes: bool, everything: bool, index: str, **options: Any) -> None:
    """Cancel every JOB, or all jobs that the options select. Workers end gracefully.

    A cancelled job and its output are kept as long as any other ended job. A cancelled CronJob starts no further jobs,
    and its running jobs are cancelled.

    The options select only unfinished jobs; with --delete, they also select ended jobs.
    """
    target = Target.of(options)
    alike = any(options.values())
    if bool(jobs) + everything + alike != 1:
        raise click.UsageError("name jobs, or select them with --all, --selector, --queue, --state or --user")
    if index and (len(jobs) != 1 or delete or "/" in jobs[0]):
        raise click.UsageError("--index: name one job, without --delete, which removes the whole job")
    kinds = dict.fromkeys(jobs) if jobs else _choose_jobs(target, options, delete=delete, yes=yes)
    if kinds:
        ask(_cancel(target, kinds, index=index, delete=delete))


def _choose_jobs(target: Target, options: dict[str, Any], *, delete: bool, yes: bool) -> "dict[str, Kind[Any]]":
    """Return the names and kinds of the jobs that the options select, after asking the user; empty if there are none.

    Raises an error of click if the user does not agree.
    """
    from muster.cli.terminal.asking import ask_to_go_on
    from muster.cli.terminal.output import say

    rows = [row for row in ask(_find_jobs(target, options)) if delete or row["state"] not in OVER]
    if not rows:
        say("no such jobs" if delete else "no such jobs are unfinished")
        return {}
    what = f"{'delete' if delete else 'cancel'} {len(rows)} {'job' if len(rows) == 1 else 'jobs'}"
    shown = [f"{row['name']} ({row['state']})" for row in rows]
    if ask_to_go_on(f"{what} of namespace {rows[0]['namespace']}", shown, yes=yes):
        return {row["name"]: row["kind"] for row in rows}
    raise click.ClickException("nothing was done")


async def _find_jobs(target: Target, options: dict[str, Any]) -> list[dict[str, Any]]:
    from muster.cli.actions.choosing import select_job_rows

    async with connect(target) as session:
        return await select_job_rows(session, options["selector"], options["states"], options["queue"], options["user"])


async def _cancel(target: Target, kinds: "Mapping[str, Kind[Any] | None]", *, index: str, delete: bool) -> None:
    """Cancel the jobs of these names, or the trials `index` of the only one.

    kinds: the kind of each job, by name; None for a job that the user named, whose kind is unknown.
    """
    from muster.actions.jobs.cancelling import cancel, cancel_trials
    from muster.api.batch import CRON_JOB
    from muster.cli.actions.each import act_on_each

    async with connect(target) as session:
        if index:
            [job] = kinds
            outcome = await cancel_trials(session.client, job, session.namespace, index)
            click.echo(f"{job} {outcome}")
            return

        async def end(name: str) -> str:
            prefix, _, rest = name.rpartition("/")
            kind = CRON_JOB if prefix else kinds[name]
            outcome = await cancel(session.client, rest, session.namespace, delete=delete, kind=kind)
            return f"{rest} {outcome}"

        await act_on_each(kinds, end)
