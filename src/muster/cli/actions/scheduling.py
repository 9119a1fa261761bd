"""Submits a job with a schedule, and says when it starts and how to follow and stop it."""

import click

from muster.actions import submitting
from muster.actions.gang import Gang
from muster.actions.session import Session
from muster.api.values.schedules import parse
from muster.cli.terminal.output import say
from muster.runtime.realclock import RealClock


async def submit_cron_job(session: Session, gang: Gang, *, on_this_machine: bool) -> int:
    """Create the CronJob and return the exit code. Raises `ApiError`, `TransportError`, `UserError`.

    on_this_machine: whether the cluster's time zone is that of this machine; otherwise the first start is not known.
    """
    await submitting.submit_cron_job(session.client, gang)
    click.echo(gang.name)
    first = parse(gang.schedule, None).next(RealClock().now()) if on_this_machine else None
    when = f", first at {first.astimezone():%Y-%m-%d %H:%M}" if first is not None else ", in the cluster's time zone"
    say(f"{gang.name} starts at {gang.schedule}{when}")
    say(f"look at it:  kubectl get cronjob {gang.name}\nits jobs:    muster ps\nstop it:     muster cancel {gang.name}")
    return 0
