"""`muster notify`: deliver the notice of an event of a job."""

import asyncio
import os

import click


@click.command
def command() -> None:
    """Deliver the notice that the variables MUSTER_JOB, MUSTER_EVENT and their like describe.

    Muster itself calls this in the pods that tell somebody of an event: muster run --notify ada@example.org
    """
    from muster.actions.delivering import deliver
    from muster.actions.errors import UserError
    from muster.api.ours.notify import NOTICE_TARGET_VARIABLE
    from muster.runtime.realclock import RealClock

    target = os.environ.get(NOTICE_TARGET_VARIABLE, "")
    if not target:
        raise click.UsageError("this runs for a job alone; try: muster run --notify ada@example.org -- COMMAND")
    try:
        asyncio.run(deliver(target, os.environ, RealClock()))
    except UserError as error:
        raise click.ClickException(str(error)) from None
