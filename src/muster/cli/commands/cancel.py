"""`muster cancel`: end jobs."""

from typing import Any

import click

from muster.cli.completion import names
from muster.cli.names.examples import examples
from muster.cli.names.types import name
from muster.cli.session import Target, connect, run, target_options


@click.command(
    epilog=examples("muster cancel train", "muster cancel train tune -n lab", "muster cancel train --delete"),
)
@click.argument("jobs", nargs=-1, required=True, type=name, metavar="JOB...", shell_complete=names.jobs)
@click.option("--delete", is_flag=True, help="Delete it too, with what it printed.")
@target_options
def command(jobs: tuple[str, ...], delete: bool, **options: Any) -> None:
    """End the workers of every JOB gracefully.

    What is known of it, and what it printed, stays for as long as that of a job that ended by itself.
    """
    run(_cancel(Target.of(options), jobs, delete=delete))


async def _cancel(target: Target, jobs: tuple[str, ...], *, delete: bool) -> None:
    from muster.cli.actions.cancelling import cancel
    from muster.cli.actions.each import each

    async with connect(target) as session:

        async def end(name: str) -> None:
            click.echo(f"{name} {await cancel(session.client, name, session.namespace, delete=delete)}")

        await each(jobs, end)
