"""Hold and release the jobs and queues that a command line names."""

from muster.actions.jobs.holding import set_active, set_starting, set_stop_policy
from muster.actions.server.session import Session
from muster.api.batch import CRON_JOB
from muster.cli.actions.each import act_on_each


async def hold_or_release(session: Session, names: tuple[str, ...], *, hold: bool) -> None:
    """Hold or release every named job, `cronjob/NAME`, or LocalQueue, as `queue/NAME`; print each outcome.

    Raises `click.exceptions.Exit` if one failed.

    hold: whether to hold them; otherwise they are released.
    """

    async def act(name: str) -> str:
        kind, _, rest = name.rpartition("/")
        if kind == "queue":
            return await set_stop_policy(session, rest, "Hold" if hold else "None", cluster=False)
        if kind:
            cron_job = await session.client.get(CRON_JOB, rest, session.namespace)
            return await set_starting(session.client, cron_job, starting=not hold)
        return await set_active(session, name, active=not hold)

    await act_on_each(names, act)
