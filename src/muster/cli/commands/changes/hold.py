"""`muster hold`: keep jobs, or a queue, from starting. `release` is made with the same function."""

from typing import Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import name_or_queue
from muster.cli.session import ask, connect, target_options


def make_command(name: str, help: str, *, hold: bool) -> click.Command:
    """Return the command that holds every job and queue that it names, or releases them if `hold` is False."""

    @click.command(name, help=help, epilog=format_examples(f"muster {name} train", f"muster {name} queue/vision"))
    @click.argument(
        "jobs",
        nargs=-1,
        required=True,
        type=name_or_queue,
        metavar="JOB|queue/NAME...",
        shell_complete=names.complete_jobs_and_queues,
    )
    @target_options
    def command(jobs: tuple[str, ...], **options: Any) -> None:
        ask(_hold_or_release(Target.of(options), jobs, hold=hold))

    return command


async def _hold_or_release(target: Target, jobs: tuple[str, ...], *, hold: bool) -> None:
    from muster.cli.actions.holding import hold_or_release

    async with connect(target) as session:
        await hold_or_release(session, jobs, hold=hold)


command = make_command(
    "hold",
    """Stop every JOB, and keep it from starting until `muster release`.

    queue/NAME means a LocalQueue: its waiting jobs do not start, and its running jobs continue. A held CronJob starts
    no further jobs, and its running jobs continue.
    """,
    hold=True,
)
