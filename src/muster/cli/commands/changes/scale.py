"""`muster scale`: change the number of workers of a job."""

import re
from typing import Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import parse_job_name
from muster.cli.session import ask, connect, target_options


class _ScaleCommand(click.Command):
    """A click command whose last argument is a number, so that `-1` is read as a number and not as an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if negative := next((word for word in args if re.fullmatch(r"-\d+", word)), None):
            raise click.UsageError(f"{negative} workers: a job has 0 workers or more", ctx)
        return super().parse_args(ctx, args)


@click.command(
    cls=_ScaleCommand,
    epilog=format_examples("muster scale train 6", "muster scale train 6 --role worker"),
)
@click.argument("job", type=parse_job_name, shell_complete=names.complete_jobs)
@click.argument("workers", type=click.IntRange(0, 100_000))  # api.batch.MAX_PARALLELISM, which is imported late
@click.option("--role", metavar="NAME", default="", help="Role to change, in a job with several roles.")
@click.option(
    "--force",
    is_flag=True,
    help="Allow jobs that are not elastic, sizes below MIN or above MAX, and the size 0, which completes the job.",
)
@target_options
def command(job: str, workers: int, role: str, force: bool, **options: Any) -> None:
    """Change the number of workers of JOB. An Indexed Job gains or loses the workers with the highest indexes.

    A gang of `muster run` must be submitted with --elastic, because running workers otherwise keep their WORLD_SIZE.
    --force changes the size of any gang.
    """
    ask(_scale_job(Target.of(options), job, workers, role, force=force))


async def _scale_job(target: Target, name: str, workers: int, role: str, *, force: bool) -> None:
    from muster.actions.jobs.scaling import ObjectionError, explain_later_sizes, scale

    async with connect(target) as session:
        try:
            before = await scale(session, name, workers, role=role, force=force)
        except ObjectionError as error:
            raise click.ClickException(f"{error}; --force if that is meant") from None
        click.echo(f"{name} scaled from {before.workers} to {workers}")
        if note := explain_later_sizes(before, workers):
            click.echo(note, err=True)
