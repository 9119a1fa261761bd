"""`muster release`: release held jobs and queues."""

from typing import Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import name_or_queue
from muster.cli.session import ask, connect, target_options


@click.command(
    epilog=format_examples("muster release train", "muster release queue/vision"),
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
    """Let every JOB queue again; queue/NAME lets jobs start from that LocalQueue again."""
    ask(_release(Target.of(options), jobs))


async def _release(target: Target, jobs: tuple[str, ...]) -> None:
    from muster.cli.actions.holding import hold_or_release

    async with connect(target) as session:
        await hold_or_release(session, jobs, hold=False)
