"""`muster wait`: wait until jobs finish."""

import asyncio
import os
import sys
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import click

from muster.actions.server.session import Session, Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import parse_duration, parse_job_name
from muster.cli.session import connect, run, target_options

if TYPE_CHECKING:
    from muster.cli.terminal.liveline import LiveLine

# The exit code of timeout(1).
TIMED_OUT_CODE = 124


@click.command(
    epilog=format_examples(
        "muster wait train",
        "muster wait train tune --timeout 2h",
        "muster wait trial-1 trial-2 trial-3 --any",
    ),
)
@click.argument(
    "jobs", nargs=-1, required=True, type=parse_job_name, metavar="JOB...", shell_complete=names.complete_jobs
)
@click.option("--any", "first", is_flag=True, help="Wait until one of the jobs has ended, and return its exit code.")
@click.option(
    "--timeout",
    metavar="TIME",
    type=parse_duration,
    help="Maximum time to wait, such as 90s or 2h. After that, the exit code is 124.",
)
@target_options
def command(jobs: tuple[str, ...], first: bool, timeout: float | None, **options: Any) -> None:
    """Wait until every JOB has ended. The exit code is the highest exit code of the jobs.

    A job that does not exist counts as a job with exit code 1.
    """
    sys.exit(run(_wait(Target.of(options), jobs, timeout, first=first)))


async def _wait(target: Target, jobs: tuple[str, ...], seconds: float | None, *, first: bool) -> int:
    from muster.cli.terminal.output import say

    async with connect(target) as session:
        try:
            async with asyncio.timeout(seconds):
                return await follow_all(session, [(session.namespace, job) for job in dict.fromkeys(jobs)], first=first)
        except TimeoutError:
            say(f"not finished within {seconds:g} s; the jobs continue")
            return TIMED_OUT_CODE


async def follow_all(session: Session, jobs: Sequence[tuple[str, str]], *, first: bool = False) -> int:
    """Wait for jobs, by namespace and name, and print their progress; return the highest of their exit codes.

    A job that cannot be followed counts as 1.

    first: whether to return the exit code of the first job that finishes.
    """
    from muster.cli.actions.each import try_and_say
    from muster.cli.terminal.liveline import LiveLine

    codes: list[int] = []

    async def finish(namespace: str, name: str) -> None:
        codes.append(await follow(session, namespace, name, line))

    with LiveLine() as line:
        works = [try_and_say(name, finish(namespace, name), line.say) for namespace, name in jobs]
        results = await (_wait_for_first(works) if first else asyncio.gather(*works))
    return codes[0] if first and codes else max([*codes, int(not all(results))])


async def _wait_for_first(works: Sequence[Coroutine[Any, Any, bool]]) -> list[bool]:
    """Run all `works` concurrently until one succeeds or all have ended; cancel the others.

    Return the results of the works that have ended.
    """
    from muster.runtime.tasks import cancel

    tasks = [asyncio.create_task(work) for work in works]
    results: list[bool] = []
    try:
        for next_one in asyncio.as_completed(tasks):
            results.append(await next_one)
            if results[-1]:
                break
    finally:
        await cancel(tasks)
    return results


async def follow(session: Session, namespace: str, name: str, line: "LiveLine") -> int:
    """Wait for a job or pod group to end, and print its progress and outcome; return its exit code.

    Raises `ApiError`, `TransportError`.
    """
    from muster.actions.following.elsewhere import make_reach
    from muster.actions.following.follow import Follower
    from muster.actions.jobs.podgroups import find_pods, follow_pods
    from muster.api.status import ApiError
    from muster.cli.terminal.progress import Progress
    from muster.runtime.ids import Random
    from muster.runtime.realclock import RealClock

    progress = Progress(name, 1, line.say, line.show)
    reach = make_reach(session.client)
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
        inside=os.environ.get("MUSTER_JOB", ""),
    )
    try:
        ending = await follower.run()
    except ApiError as error:
        workload = await find_pods(session.client, namespace, name) if error.code == 404 else None
        if workload is None:
            raise
        ending = await follow_pods(session.client, RealClock(), Random(), workload, progress.report)
    finally:
        line.show(name, "")
    line.say(f"{name}: {ending.text or 'completed'}")
    return ending.code
