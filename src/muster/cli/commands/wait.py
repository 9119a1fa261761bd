"""`muster wait`: until jobs finish."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import click

from muster.cli.completion import names
from muster.cli.names.examples import examples
from muster.cli.names.types import name
from muster.cli.session import Session, Target, connect, run, target_options


@click.command(
    epilog=examples("muster wait train", "muster wait train tune"),
)
@click.argument("jobs", nargs=-1, required=True, type=name, metavar="JOB...", shell_complete=names.jobs)
@target_options
def command(jobs: tuple[str, ...], **options: Any) -> None:
    """Wait until every JOB has finished; the exit code is the highest of theirs, 1 for one that there is not."""
    sys.exit(run(_wait(Target.of(options), jobs)))


async def _wait(target: Target, jobs: tuple[str, ...]) -> int:
    async with connect(target) as session:
        return await follow_all(session, [(session.namespace, job) for job in dict.fromkeys(jobs)])


async def follow_all(session: Session, jobs: Sequence[tuple[str, str]]) -> int:
    """Wait for jobs, by namespace and name; the highest of their exit codes."""
    from muster.cli.actions.each import attempt

    codes: list[int] = []

    async def finish(namespace: str, name: str) -> None:
        codes.append(await follow(session, namespace, name))

    done = await asyncio.gather(*(attempt(name, finish(namespace, name)) for namespace, name in jobs))
    return max([*codes, int(not all(done))])


async def follow(session: Session, namespace: str, name: str) -> int:
    """Wait for one job, saying how it gets on; its exit code."""
    from muster.cli.following.follow import Follower
    from muster.cli.terminal.output import say
    from muster.cli.terminal.progress import Progress
    from muster.runtime.clock import RealClock
    from muster.runtime.ids import Random

    report = Progress(name, 1, say).report
    ending = await Follower(session.client, RealClock(), Random(), namespace, name, report=report, warn=say).run()
    say(f"{name}: {ending.text or 'completed'}")
    return ending.code
