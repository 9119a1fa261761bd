"""`muster cancel`: stop and delete jobs."""

from typing import Any

import click

from muster.cli.completion import names
from muster.cli.examples import examples
from muster.cli.session import Target, connect, run, target_options
from muster.cli.words import name


@click.command(
    epilog=examples("muster cancel train", "muster cancel train tune -n lab"),
)
@click.argument("jobs", nargs=-1, required=True, type=name, metavar="JOB...", shell_complete=names.jobs)
@target_options
def command(jobs: tuple[str, ...], **options: Any) -> None:
    """End the workers of every JOB gracefully, then delete it."""
    run(_cancel(Target.of(options), jobs))


async def _cancel(target: Target, jobs: tuple[str, ...]) -> None:
    from muster.api.batch import JOB
    from muster.cli.each import each

    async with connect(target) as session:

        async def cancel(name: str) -> None:
            await session.client.delete(JOB, name, session.namespace, propagation="Foreground")
            click.echo(f"{name} cancelled")

        await each(jobs, cancel)
