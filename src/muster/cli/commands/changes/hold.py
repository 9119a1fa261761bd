"""`muster hold`: keep jobs, or a queue, from starting."""

from typing import Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import name_or_queue
from muster.cli.session import ask, connect, target_options


@click.command(
    epilog=format_examples("muster hold train", "muster hold queue/vision"),
)
@click.argument(
    "jobs",
    nargs=-1,
    required=True,
    type=name_or_queue,
    metavar="JOB|queue/NAME...",
    shell_complete=names.jobs_and_queues,
)
@target_options
def command(jobs: tuple[str, ...], **options: Any) -> None:
    """Stop every JOB, and keep it from starting; queue/NAME keeps the jobs of that LocalQueue from starting.

    A CronJob starts no jobs; those that run go on.
    """
    ask(_hold(Target.of(options), jobs))


async def _hold(target: Target, jobs: tuple[str, ...]) -> None:
    from muster.cli.actions.holding import hold_or_release

    async with connect(target) as session:
        await hold_or_release(session, jobs, hold=True)
