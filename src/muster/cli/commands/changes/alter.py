"""`muster alter`: change the settings of a job that was submitted."""

from typing import Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import parse_job_name, time_limit
from muster.cli.session import ask, connect, target_options


@click.command(
    epilog=format_examples(
        "muster alter train --time 12h",
        "muster alter train --queue vision --priority high",
    ),
)
@click.argument("job", type=parse_job_name, shell_complete=names.complete_jobs)
@click.option(
    "-t",
    "--time",
    "limit",
    metavar="TIME",
    type=time_limit,
    help="New time limit of each attempt, such as 90s, 2h or 2:00:00. It can also change while the job runs.",
)
@click.option(
    "-q",
    "--queue",
    metavar="Q",
    default="",
    help="New LocalQueue. It can change only while the job waits.",
    shell_complete=names.complete_local_queues,
)
@click.option(
    "--priority",
    metavar="P",
    default="",
    help="New WorkloadPriorityClass. While the job runs, it can change only if the job was submitted with one.",
)
@click.option("--force", is_flag=True, help="Allow a time limit that has already passed. The job then ends.")
@click.option("--name", "new_name", metavar="N", default="", hidden=True)
@target_options
def command(job: str, limit: int | None, queue: str, priority: str, force: bool, new_name: str, **options: Any) -> None:
    """Change the time limit, the queue or the priority of JOB.

    The command makes all changes, or none of them. The name, the command and the requested resources of a job cannot
    change.
    """
    if new_name:
        raise click.UsageError(
            f"--name: a job keeps its name, by which its workers find each other, and other jobs, its output and its "
            f"state are found; cancel it and submit it as {new_name}"
        )
    if limit is None and not queue and not priority:
        raise click.UsageError("say what to change: --time, --queue or --priority")
    ask(_alter(Target.of(options), job, limit, queue, priority, force=force))


async def _alter(target: Target, name: str, limit: int | None, queue: str, priority: str, *, force: bool) -> None:
    from muster.actions.jobs.altering import Alteration, alter
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        for sentence in await alter(session, name, Alteration(limit, queue, priority, force), RealClock().now()):
            click.echo(sentence)
