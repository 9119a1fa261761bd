"""`muster logs`: what a job's workers printed, and print."""

import sys
from typing import Any

import click

from muster.cli.completion import names
from muster.cli.names.examples import examples
from muster.cli.names.types import name
from muster.cli.session import Target, connect, run, target_options


@click.command(
    epilog=examples("muster logs train", "muster logs -f train --rank 0", "muster logs train --previous"),
)
@click.argument("job", type=name, shell_complete=names.jobs)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends; waits for pods that are not there yet.")
@click.option("--rank", metavar="N", default="", help="Only this worker.")
@click.option("--attempt", metavar="N", type=click.IntRange(min=1), help="Of each worker its Nth start, from 1.")
@click.option("--previous", is_flag=True, help="Of each worker the start before the last.")
@target_options
def command(job: str, follow: bool, rank: str, attempt: int | None, previous: bool, **options: Any) -> None:
    """Print the output of the workers of JOB, each line with its worker's rank.

    What a worker printed before it was preempted, or started anew, is kept for as long as the job, within limits.
    """
    if (attempt is not None) + previous + follow > 1:
        raise click.UsageError("only one of --attempt, --previous and --follow can be meant")
    sys.exit(run(_logs(Target.of(options), job, rank, attempt, follow=follow, previous=previous)))


async def _logs(target: Target, name: str, rank: str, attempt: int | None, *, follow: bool, previous: bool) -> int:
    from muster.cli.following.follow import Follower
    from muster.cli.names.choices import get_job
    from muster.cli.terminal.output import say
    from muster.cli.terminal.printing import Printer
    from muster.insight.jobstate import worker
    from muster.runtime.clock import RealClock
    from muster.runtime.ids import Random

    async with connect(target) as session:
        job = await get_job(session.client, name, session.namespace)
        try:
            rank = worker(job, rank) if rank else ""
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--rank") from None
        printer, code = Printer(ranks=not rank and job.most > 1), 0
        follower = Follower(
            session.client, RealClock(), Random(), session.namespace, name, show=printer.show, warn=say, rank=rank
        )
        if follow:
            code = (await follower.run()).code
        else:
            try:
                await follower.print_once(job, attempt, previous=previous)
            except LookupError as error:
                raise click.ClickException(str(error)) from None
        await printer.finish()
        return code
