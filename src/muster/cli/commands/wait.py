"""`muster wait`: until jobs finish."""

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import click

from muster.actions.session import Session, Target
from muster.cli.completion import names
from muster.cli.names.examples import examples
from muster.cli.names.types import duration, name
from muster.cli.session import connect, run, target_options

if TYPE_CHECKING:
    from muster.cli.terminal.liveline import LiveLine

# As timeout(1) has it.
TIMED_OUT_CODE = 124


@click.command(
    epilog=examples(
        "muster wait train",
        "muster wait train tune --timeout 2h",
        "muster wait trial-1 trial-2 trial-3 --any",
    ),
)
@click.argument("jobs", nargs=-1, required=True, type=name, metavar="JOB...", shell_complete=names.jobs)
@click.option("--any", "first", is_flag=True, help="Until one of them has finished; the exit code is that one's.")
@click.option("--timeout", metavar="TIME", type=duration, help="Wait no longer, as 90s or 2h; the exit code is 124.")
@target_options
def command(jobs: tuple[str, ...], first: bool, timeout: float | None, **options: Any) -> None:
    """Wait until every JOB has finished; the exit code is the highest of theirs, 1 for one that there is not."""
    sys.exit(run(_wait(Target.of(options), jobs, timeout, first=first)))


async def _wait(target: Target, jobs: tuple[str, ...], seconds: float | None, *, first: bool) -> int:
    from muster.cli.terminal.output import say

    async with connect(target) as session:
        try:
            async with asyncio.timeout(seconds):
                return await follow_all(session, [(session.namespace, job) for job in dict.fromkeys(jobs)], first=first)
        except TimeoutError:
            say(f"not finished within {seconds:g} s; what runs goes on")
            return TIMED_OUT_CODE


async def follow_all(session: Session, jobs: Sequence[tuple[str, str]], *, first: bool = False) -> int:
    """Wait for jobs, by namespace and name; the highest of their exit codes. first: that of the first to finish."""
    from muster.cli.actions.each import attempt
    from muster.cli.terminal.liveline import LiveLine

    codes: list[int] = []

    async def finish(namespace: str, name: str) -> None:
        codes.append(await follow(session, namespace, name, line))

    with LiveLine() as line:
        works = [attempt(name, finish(namespace, name), line.say) for namespace, name in jobs]
        done = await (_first(works) if first else asyncio.gather(*works))
    return codes[0] if first and codes else max([*codes, int(not all(done))])


async def _first(works: Sequence[Coroutine[Any, Any, bool]]) -> list[bool]:
    """What becomes of them until one has succeeded, or none has."""
    from muster.runtime.tasks import cancel

    tasks = [asyncio.create_task(work) for work in works]
    done: list[bool] = []
    try:
        for next_one in asyncio.as_completed(tasks):
            done.append(await next_one)
            if done[-1]:
                break
    finally:
        await cancel(tasks)
    return done


async def follow(session: Session, namespace: str, name: str, line: "LiveLine") -> int:
    """Wait for one job, saying how it gets on; its exit code."""
    from muster.actions.following.elsewhere import reaching
    from muster.actions.following.follow import Follower
    from muster.cli.terminal.progress import Progress
    from muster.runtime.clock import RealClock
    from muster.runtime.ids import Random

    progress = Progress(name, 1, line.say, line.show)
    reach = reaching(session.client)
    follower = Follower(
        session.client,
        RealClock(),
        Random(),
        namespace,
        name,
        report=progress.report,
        count=progress.count,
        warn=line.say,
        reach=reach,
    )
    try:
        ending = await follower.run()
    finally:
        line.show(name, "")
    line.say(f"{name}: {ending.text or 'completed'}")
    return ending.code
