"""`muster why`: explain where a job stands, level by level."""

from typing import TYPE_CHECKING, Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import parse_job_name
from muster.cli.session import ask, connect, target_options

if TYPE_CHECKING:
    from datetime import datetime

    from muster.actions.server.session import Session


@click.command(
    epilog=format_examples("muster why train", "muster why train -o json", "muster why train --history"),
)
@click.argument("job", type=parse_job_name, shell_complete=names.complete_jobs)
@click.option("--history", is_flag=True, help="List the decisions about the job so far, each with its reason.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Output format (default: text).")
@target_options
def command(job: str, output: str | None, *, history: bool, **options: Any) -> None:
    """Explain what JOB waits for, which jobs are ahead of it, and when it will start; or where it runs.

    For a CronJob, the command shows its next start and its running jobs. For a PodGroup, it shows each pod, as `muster
    podgroups describe` does. With --history, it lists the decisions about JOB, even if JOB was deleted.
    """
    ask((_tell_life if history else _print_answer)(Target.of(options), job, output or ""))


async def _tell_life(target: Target, name: str, output: str) -> None:
    from muster.actions.jobs.lookup import explain_missing_job
    from muster.cli.terminal.output import dump, say
    from muster.insight.history.life import make_life_document, render_life
    from muster.insight.reader.history.decisions import NO_DECISIONS, read_life

    async with connect(target) as session:
        life = await read_life(session.client, session.namespace, name)
        if life is None:
            raise click.ClickException(await explain_missing_job(session.client, name, session.namespace))
    click.echo(dump(make_life_document(life), output) if output else "\n".join(render_life(life)))
    if not life.kept:
        say(NO_DECISIONS)


async def _print_answer(target: Target, name: str, output: str) -> None:
    """Explain the state of a job; of the pod groups or the CronJob of this name if there is no such job.

    Raises `click.ClickException` if none of them exists.

    output: `json` or `yaml`; "" for text.
    """
    from muster.actions.jobs.explaining import explain
    from muster.cli.terminal.output import dump, say
    from muster.insight.reader.engine import say_if_not_led
    from muster.insight.why.answer import make_document, render_lines
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        now = RealClock().now()
        answer = await explain(session.client, session.namespace, name, now)
        if answer is None:
            from muster.cli.actions.describing import describe_groups, render_details

            groups, _ = await describe_groups(session.client, session.namespace, name, now)
            if groups:
                click.echo(dump(groups, output) if output else render_details(groups))
                return
            if not await _show_cron_job(session, name, now, output):
                from muster.actions.jobs.lookup import explain_missing_job

                raise click.ClickException(await explain_missing_job(session.client, name, session.namespace))
            return
        readings, _ = answer
        await say_if_not_led(session.client, [readings.state.word], now, say)
    if output:
        click.echo(dump(make_document(*answer), output))
    else:
        click.echo("\n".join(render_lines(*answer)))


async def _show_cron_job(session: "Session", name: str, now: "datetime", output: str) -> bool:
    """Print when the CronJob of this name starts jobs, and which run; return False if there is no such CronJob.

    output: `json` or `yaml`; "" for text.
    """
    from muster.api.batch import CRON_JOB
    from muster.cli.actions.running.scheduling import render_cron_job
    from muster.cli.terminal.output import dump
    from muster.insight.jobs.cronjobs import describe_cron_job
    from muster.insight.reader.engine import is_embedded
    from muster.insight.reader.listing.access import get_or_none

    cron_job = await get_or_none(session.client, CRON_JOB, name, session.namespace)
    if cron_job is None:
        return False
    described = describe_cron_job(cron_job, now, on_this_machine=await is_embedded(session.client))
    click.echo(dump(described, output) if output else "\n".join(render_cron_job(described)))
    return True
