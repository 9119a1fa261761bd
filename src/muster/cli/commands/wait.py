"""`muster wait`: until jobs finish."""

import asyncio
import sys
from typing import Any

import click

from muster.cli.completion import names
from muster.cli.examples import examples
from muster.cli.session import Session, Target, connect, run, target_options


@click.command(
    epilog=examples("muster wait train", "muster wait train tune"),
)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=names.jobs)
@target_options
def command(jobs: tuple[str, ...], **options: Any) -> None:
    """Wait until every JOB has finished; the exit code is that of the first that failed."""
    sys.exit(run(_wait(Target.of(options), jobs)))


async def _wait(target: Target, jobs: tuple[str, ...]) -> int:
    async with connect(target) as session:
        codes = await asyncio.gather(*(follow(session, session.namespace, job) for job in jobs))
        return next((code for code in codes if code), 0)


async def follow(session: Session, namespace: str, name: str) -> int:
    """Wait for one job, saying how it gets on; its exit code."""
    from muster.cli.follow import Follower
    from muster.cli.output import say
    from muster.cli.progress import Progress
    from muster.runtime.clock import RealClock
    from muster.runtime.ids import Random

    report = Progress(name, 1, say).report
    ending = await Follower(session.client, RealClock(), Random(), namespace, name, report=report, warn=say).run()
    say(f"{name}: {ending.text or 'completed'}")
    return ending.code
