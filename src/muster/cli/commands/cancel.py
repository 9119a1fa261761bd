"""`muster cancel`: end jobs."""

from typing import Any

import click

from muster.actions.session import Target
from muster.cli.commands.ps import OVER, STATES
from muster.cli.completion import names
from muster.cli.names.examples import examples
from muster.cli.names.selecting import selecting
from muster.cli.names.types import name
from muster.cli.session import connect, run, target_options


@click.command(
    epilog=examples(
        "muster cancel train",
        "muster cancel train tune -n lab",
        "muster cancel train --delete",
        "muster cancel --queue vision --state Queued",
        "muster cancel -l sweep=lr --yes",
        "muster cancel --all",
    ),
)
@click.argument("jobs", nargs=-1, type=name, metavar="[JOB]...", shell_complete=names.jobs)
@click.option("--all", "everything", is_flag=True, help="All jobs of the namespace.")
@click.option("-l", "--selector", metavar="LABELS", default="", help="The jobs with these labels, as team=vision.")
@selecting("The jobs", STATES, by_state="The jobs in this state; may be repeated.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask, where jobs are not named.")
@click.option("--delete", is_flag=True, help="Delete it too, with what it printed.")
@target_options
def command(jobs: tuple[str, ...], delete: bool, yes: bool, everything: bool, **options: Any) -> None:
    """End the workers of every JOB gracefully, or of all that are alike in what the options say.

    What is known of it, and what it printed, stays for as long as that of a job that ended by itself. Jobs that have
    ended are left out, but for those that are named, and with --delete.
    """
    target = Target.of(options)
    alike = any(options.values())
    if bool(jobs) + everything + alike != 1:
        raise click.UsageError("name jobs, or say --all, or which: by --selector, --queue, --state and --user")
    if not jobs:
        jobs = _chosen(target, options, delete=delete, yes=yes)
    if jobs:
        run(_cancel(target, jobs, delete=delete))


def _chosen(target: Target, options: dict[str, Any], *, delete: bool, yes: bool) -> tuple[str, ...]:
    """The jobs that are meant, if the user agrees."""
    from muster.cli.terminal.asking import agreed
    from muster.cli.terminal.output import say

    found = [row for row in run(_alike(target, options)) if delete or row["state"] not in OVER]
    if not found:
        say("no such jobs" if delete else "no such jobs that go on")
        return ()
    what = f"{'delete' if delete else 'cancel'} {len(found)} {'job' if len(found) == 1 else 'jobs'}"
    shown = [f"{row['name']} ({row['state']})" for row in found]
    if agreed(f"{what} of namespace {found[0]['namespace']}", shown, yes=yes):
        return tuple(row["name"] for row in found)
    raise click.ClickException("nothing was done")


async def _alike(target: Target, options: dict[str, Any]) -> list[dict[str, Any]]:
    from muster.cli.actions.choosing import jobs_alike

    async with connect(target) as session:
        return await jobs_alike(session, options["selector"], options["states"], options["queue"], options["user"])


async def _cancel(target: Target, jobs: tuple[str, ...], *, delete: bool) -> None:
    from muster.actions.cancelling import cancel
    from muster.cli.actions.each import each

    async with connect(target) as session:

        async def end(name: str) -> None:
            click.echo(f"{name} {await cancel(session.client, name, session.namespace, delete=delete)}")

        await each(jobs, end)
