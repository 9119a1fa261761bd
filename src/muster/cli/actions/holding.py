"""Holds and releases the jobs and queues that a command line names."""

import click

from muster.actions.jobs.holding import set_active, set_stop_policy
from muster.actions.server.session import Session
from muster.cli.actions.each import act_on_each


async def hold_or_release(session: Session, names: tuple[str, ...], *, hold: bool) -> None:
    """Hold or release every named job or, as `queue/NAME`, LocalQueue; print each outcome.

    Raises `click.exceptions.Exit` if one failed.
    """

    async def act(name: str) -> None:
        head, _, queue = name.partition("/")
        if head == "queue" and queue:
            click.echo(await set_stop_policy(session, queue, "Hold" if hold else "None", cluster=False))
        else:
            click.echo(await set_active(session, name, active=not hold))

    await act_on_each(names, act)
