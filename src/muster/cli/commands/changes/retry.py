"""`muster retry`: retry the failed trials of a sweep."""

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import parse_job_name
from muster.cli.session import ask, connect, target_options


@click.command(
    epilog=format_examples("muster retry tune", "muster retry tune --name tune-again"),
)
@click.argument("job", type=parse_job_name, shell_complete=names.complete_jobs)
@click.option(
    "--name", "new", metavar="N", default="", help="Name of the new sweep (default: derived from the name of JOB)."
)
@target_options
def command(job: str, new: str, **options: str) -> None:
    """Submit a new sweep of the trials of JOB that have not succeeded, and print the name of the new sweep.

    The trials keep their indexes and values. The sweep JOB does not change.
    """
    ask(_retry_trials(Target.of(options), job, new))


async def _retry_trials(target: Target, sweep: str, new_name: str) -> None:
    from muster.actions.jobs.retrying import retry
    from muster.actions.submission.gang import WORKERS, Role, no_host_name
    from muster.cli.terminal.output import say
    from muster.runtime.ids import Ids

    if complaint := no_host_name(new_name, (Role(WORKERS, ()),)):
        raise click.BadParameter(complaint, param_hint="--name")
    async with connect(target) as session:
        made = await retry(session.client, sweep, session.namespace, new_name, Ids())
    if made is None:
        say(f"all trials of {sweep} have succeeded or were cancelled by --index: there is none to retry")
        return
    click.echo(made.name)
    say(f"{len(made.trials)} of {made.of} trials again; follow it: muster logs -f {made.name}")
