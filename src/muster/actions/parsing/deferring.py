"""Parse the begin time of a job, and check the jobs that it depends on."""

import re
from datetime import datetime, time, timedelta

from muster.actions.errors import UserError
from muster.actions.jobs.lookup import get_job
from muster.actions.parsing.limits import parse_time_limit
from muster.api.batch import CRON_JOB
from muster.api.ours.deferral import Deferral, Dependency, Outcome
from muster.api.status import ApiError
from muster.insight.reader.listing.access import get_or_none
from muster.insight.record import JobEnd
from muster.runtime.client import Client

_FORMS = "as 18:00, +2h, 2026-01-31 or 2026-01-31T18:00"
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?", re.ASCII)


def parse_begin(text: str, now: datetime) -> datetime:
    """Parse a begin time such as `16:30`, `2030-01-31` or `+2h`.

    A time of day is its next occurrence, and a date is the start of that day, both in the time zone of this machine.
    Raises `ValueError` with a sentence for the user.
    """
    if text.startswith("+"):
        return now + timedelta(seconds=parse_time_limit(text[1:]))
    local = now.astimezone().replace(tzinfo=None)
    try:
        if _CLOCK.fullmatch(text):
            today = datetime.combine(local.date(), time.fromisoformat(text if text[1] != ":" else f"0{text}"))
            return (today if today > local else today + timedelta(days=1)).astimezone(now.tzinfo)
        moment = datetime.fromisoformat(text).astimezone(now.tzinfo)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time to begin, {_FORMS}") from None
    if moment <= now:
        raise ValueError(f"{text} is past; a job begins later, {_FORMS}")
    return moment


async def check_dependencies(client: Client, name: str, namespace: str, deferral: Deferral) -> None:
    """Raise `UserError` if a dependency can never be met.

    That is so if it is the job itself, a job that does not exist, or a job that ended with another outcome.
    """
    for dependency in deferral.after:
        if dependency.name == name:
            raise UserError(f"--after {dependency.name}: the job would wait for itself")
        try:
            end = (await get_job(client, dependency.name, namespace)).end
        except ApiError as error:
            if error.code != 404:
                raise
            if await get_or_none(client, CRON_JOB, dependency.name, namespace) is not None:
                raise UserError(f"--after {dependency.name}: a CronJob never ends; name one of its jobs") from None
            raise UserError(f"--after {dependency.name}: {error}") from None
        if end is not None and not _is_met(dependency, end):
            raise UserError(
                f"--after {dependency}: {dependency.name} has {_WORDS[end.word]} already, so that the job never starts"
            )


def _is_met(dependency: Dependency, end: JobEnd) -> bool:
    """Return whether a job that has ended meets the dependency. A cancelled job counts as failed."""
    if dependency.outcome is Outcome.ANY:
        return True
    return (end.word == "Completed") is (dependency.outcome is Outcome.OK)


_WORDS = {"Completed": "completed", "Failed": "failed", "Cancelled": "been cancelled"}
