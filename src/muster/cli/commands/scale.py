"""`muster scale`: change the number of workers of a job."""

from typing import Any

import click

from muster.cli.session import Target, connect, run, target_options


@click.command()
@click.argument("job")
@click.argument("workers", type=click.IntRange(min=0))
@target_options
def command(job: str, workers: int, **options: Any) -> None:
    """Give JOB that many workers: an Indexed one grows and shrinks at its highest indexes."""
    run(_scale(Target.of(options), job, workers))


async def _scale(target: Target, name: str, workers: int) -> None:
    from muster.api.batch import JOB

    async with connect(target) as session:
        job = await session.client.get(JOB, name, session.namespace)
        size: dict[str, int] = {"parallelism": workers}
        if job.spec.completion_mode == "Indexed" and job.spec.completions == job.spec.parallelism:
            size["completions"] = workers
        patch = {"metadata": {"resourceVersion": job.metadata.resource_version}, "spec": size}
        await session.client.patch(JOB, name, patch, session.namespace)
        click.echo(f"{name} scaled from {job.spec.parallelism} to {workers}")
