"""`muster logs`: print the output of a job's workers."""

import sys
from typing import TYPE_CHECKING, Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import parse_job_name
from muster.cli.session import ask, connect, run, target_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.actions.following.excerpt import Excerpt
    from muster.actions.following.printout import Printout
    from muster.insight.jobs.state import Ending
    from muster.insight.record import JobRecord


@click.command(
    epilog=format_examples(
        "muster logs train",
        "muster logs -f train --rank 0",
        "muster logs train --rank 0,2-3 --tail 20 --timestamps",
        "muster logs -f train --since 10m --grep 'loss|error'",
        "muster logs train --previous",
        "muster logs tune --index 7",
    ),
)
@click.argument("job", type=parse_job_name, shell_complete=names.complete_jobs)
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Print new output until the job ends. Also waits for pods that do not exist yet.",
)
@click.option(
    "--rank", metavar="N[-N][,...]", default="", help="Only the workers with these ranks, such as 0 or 0,2-3."
)
@click.option("--index", metavar="N", default="", help="Only this trial of a sweep.")
@click.option("--tail", metavar="N", type=click.IntRange(min=0), help="Only the last N lines of each worker.")
@click.option(
    "--since", metavar="TIME", help="Only lines since this time, such as 10m (ago), today or 2026-01-31T14:00."
)
@click.option("--grep", metavar="PATTERN", default="", help="Only lines that match this regular expression.")
@click.option("--timestamps", is_flag=True, help="Print the time of each line before the line.")
@click.option(
    "--attempt",
    metavar="N",
    type=click.IntRange(min=1),
    help="Print the Nth attempt of each worker that is kept, counted from 1.",
)
@click.option("--previous", is_flag=True, help="Print the attempt of each worker before its last attempt.")
@target_options
def command(job: str, follow: bool, attempt: int | None, previous: bool, **options: Any) -> None:
    """Print the output of the workers of JOB. With several workers, each line begins with the worker's rank.

    The output of attempts before a preemption or a restart is kept as long as the job, within size limits.
    """
    if options["rank"] and options["index"]:
        raise click.UsageError("--rank and --index exclude each other")
    if (attempt is not None) + previous + follow > 1:
        raise click.UsageError("--attempt, --previous and --follow exclude each other")
    target = Target.of(options)
    sys.exit((run if follow else ask)(_print_logs(target, job, options, attempt, follow=follow, previous=previous)))


async def _print_logs(
    target: Target, name: str, selection: dict[str, Any], attempt: int | None, *, follow: bool, previous: bool
) -> int:
    """Print the selected output of a job; return the exit code of the command.

    selection: the options that select workers and lines.
    """
    from muster.actions.following.elsewhere import make_reach
    from muster.actions.following.printout import Printout
    from muster.actions.jobs.lookup import get_job
    from muster.cli.terminal.liveline import LiveLine
    from muster.cli.terminal.printing import Printer
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        job = await get_job(session.client, name, session.namespace)
        excerpt = _make_excerpt(job, selection)
        with LiveLine() as line:
            printer, code = Printer(ranks=len(excerpt.ranks) != 1 and job.max_ranks > 1, line=line), 0
            printout = Printout(
                session.client,
                RealClock(),
                session.namespace,
                name,
                show=printer.show,
                warn=line.say,
                excerpt=excerpt,
                reach=make_reach(session.client),
            )
            if follow:
                code = (await _follow(printout)).code
            else:
                try:
                    await printout.print_once(job, attempt, previous=previous)
                except LookupError as error:
                    raise click.ClickException(str(error)) from None
            await printer.finish()
        return code


async def _follow(printout: "Printout") -> "Ending":
    from muster.actions.following.follow import Follower  # importing it loads asyncio
    from muster.cli.terminal.readers import while_read
    from muster.runtime.ids import Random

    follower = Follower(
        printout.client,
        printout.clock,
        Random(),
        printout.namespace,
        printout.name,
        show=printout.show,
        warn=printout.warn,
        excerpt=printout.excerpt,
        reach=printout.reach,
    )
    return await while_read(follower.run())


def _make_excerpt(job: "JobRecord", selection: dict[str, Any]) -> "Excerpt":
    """Return the selection of workers and lines that the options describe. Raises `click.BadParameter`."""
    from muster.actions.following.excerpt import Excerpt
    from muster.cli.names.moments import parse_moment
    from muster.insight.jobs.state import parse_ranks
    from muster.insight.jobs.trials import rank_of_trial
    from muster.runtime.realclock import RealClock

    index = selection["index"]
    try:
        ranks = parse_ranks(job, selection["rank"]) if selection["rank"] else frozenset()
        ranks = frozenset({rank_of_trial(job, index)}) if index else ranks
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--index" if index else "--rank") from None
    matches = _compile_pattern(selection["grep"]) if selection["grep"] else None
    since = parse_moment(selection["since"], RealClock().now().astimezone()) if selection["since"] else None
    return Excerpt(ranks, selection["tail"], since, matches, selection["timestamps"])


def _compile_pattern(text: str) -> "Callable[[bytes], bool]":
    """Return a function that returns whether the pattern occurs in a line. Raises `click.BadParameter`."""
    from muster.api.values.patterns import PatternError, line_pattern  # it takes a while to load

    try:
        return line_pattern(text)
    except PatternError as error:
        raise click.BadParameter(str(error), param_hint="--grep") from None
