"""`muster notify`: deliver the notice of an event of a job."""

import asyncio
import os

import click


@click.command
@click.option("--url", default="", metavar="URL", help="Send the notice to this URL as JSON.")
@click.option("--mail", "address", default="", metavar="ADDRESS", help="Send the notice by mail.")
def command(url: str, address: str) -> None:
    """Deliver the notice that the variables MUSTER_JOB, MUSTER_EVENT and their like describe.

    Muster itself calls this in the pods that tell somebody of an event: muster run --notify ada@example.org
    """
    from muster.actions.delivering import find_sendmail, mail, post, read_notice
    from muster.actions.errors import UserError
    from muster.api.ours.notify import NotifyError, check_target
    from muster.runtime.clock import RealClock

    if not os.environ.get("MUSTER_EVENT") or bool(url) == bool(address):
        raise click.UsageError("this runs for a job alone; try: muster run --notify ada@example.org -- COMMAND")
    try:
        check_target(url or address)
        notice = read_notice(os.environ)
        if url:
            asyncio.run(post(url, notice, RealClock()))
            return
        sendmail = find_sendmail(os.environ.get("PATH", os.defpath))
        if not sendmail:
            raise UserError("this machine has no sendmail")
        mail(address, notice, sendmail)
    except (NotifyError, UserError) as error:
        raise click.ClickException(str(error)) from None
