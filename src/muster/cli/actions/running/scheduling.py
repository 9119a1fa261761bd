"""Submit a job with a schedule, and describe its starts, its past jobs, and how to follow and stop it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from muster.actions.server.session import Session
from muster.actions.submission import submitting
from muster.actions.submission.gang import Gang
from muster.api.values.schedules import parse
from muster.cli.terminal.output import say
from muster.runtime.realclock import RealClock


async def submit_cron_job(session: Session, gang: Gang, *, on_this_machine: bool) -> int:
    """Create the CronJob of a gang, print its name and its first start, and return exit code 0.

    Raises `ApiError`, `TransportError`, `UserError`.

    on_this_machine: whether the cluster's time zone is that of this machine; otherwise the first start is unknown.
    """
    await submitting.submit_cron_job(session.client, gang)
    click.echo(gang.name)
    first = parse(gang.schedule, None).next(RealClock().now()) if on_this_machine else None
    when = f", first at {_format_moment(first)}" if first is not None else ", in the cluster's time zone"
    say(f"{gang.name} starts at {gang.schedule}{when}")
    say(f"inspect it:  muster why {gang.name}\nits jobs:    muster ps\nstop it:     muster cancel {gang.name}")
    return 0


def render_cron_job(described: Mapping[str, Any]) -> list[str]:
    """Return the lines of `muster why` about a CronJob: its schedule, problem, last starts and running jobs."""
    name = described["name"]
    zone = f" ({described['timeZone']})" if described["timeZone"] else ""
    following = f"next at {_format_moment(described['nextStart'])}" if described["nextStart"] else "next start unknown"
    state = f"held: it starts no jobs until: muster release {name}" if described["held"] else following
    running = ", ".join(described["running"]) or "-"
    return [
        f"{name}: starts jobs at {described['schedule']}{zone}, {state}",
        *([f"  problem       {described['problem']}"] if described["problem"] else []),
        f"  last start    {_format_moment(described['lastStart'])}",
        f"  last success  {_format_moment(described['lastSuccess'])}",
        f"  running       {running}",
    ]


def _format_moment(moment: datetime | None) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M}" if moment is not None else "-"
