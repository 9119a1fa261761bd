"""Find the start of a CronJob that is due, with the rules and messages of kube-controller-manager.

Only the last missed start counts: a controller that was down for a week starts one Job, not one for each day.

Source: pkg/controller/cronjob.
"""

from datetime import datetime, timedelta, tzinfo

from msgspec import Struct

from muster.api.batch import CronJob
from muster.api.notes import Note
from muster.api.values.schedules import Schedule, ScheduleError, find_zone, parse

# More missed starts than this show that a clock or a deadline is wrong, and are reported.
MANY_MISSED = 100

# If a clock was set back by more than this, `_find_begin` ignores the recorded times, which are in the future.
_FURTHEST_BACK = timedelta(hours=3)

_TOO_MANY = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"


class Timing(Struct, frozen=True):
    """The due start and the next start of a CronJob, by its current schedule.

    due: the missed start to catch up on; None if there is none.
    following: the next start; None if the schedule cannot be followed.
    """

    due: datetime | None = None
    following: datetime | None = None
    notes: tuple[Note, ...] = ()


def find_timing(cron_job: CronJob, now: datetime, zone: tzinfo | None, since: datetime | None = None) -> Timing:
    """Return the due start and the next start of a CronJob.

    zone: the time zone of a schedule that names none.
    since: when the current schedule was written; earlier starts do not count as missed. None if that is unknown.
    """
    spec = cron_job.spec
    if spec.time_zone is not None:
        zone = find_zone(spec.time_zone)
        if zone is None:
            sentence = f'invalid timeZone: "{spec.time_zone}": unknown time zone {spec.time_zone}'
            return Timing(notes=(Note("Warning", "UnknownTimeZone", sentence),))
    try:
        schedule = parse(spec.schedule, zone)
    except ScheduleError as error:
        sentence = f'unparseable schedule: "{spec.schedule}" : {error}'
        return Timing(notes=(Note("Warning", "UnparseableSchedule", sentence),))
    begin = _find_begin(cron_job, schedule, now, since)
    latest = schedule.latest(begin, now)
    following = schedule.next(latest or begin)
    if following is None and latest is None:
        sentence = f"invalid schedule: {spec.schedule} : no date matches, it never starts a job"
        return Timing(notes=(Note("Warning", "InvalidSchedule", sentence),))
    if latest is None:
        return Timing(following=following)
    deadline = spec.starting_deadline_seconds
    if deadline is not None and (now - latest).total_seconds() > deadline:
        return Timing(following=following)  # upstream looks back no further than the deadline, and reports nothing
    if deadline is not None and deadline < (now - begin).total_seconds():
        begin = now - timedelta(seconds=deadline)
    return Timing(latest, following, _warn_of_missed(schedule, begin, now))


def _find_begin(cron_job: CronJob, schedule: Schedule, now: datetime, since: datetime | None) -> datetime:
    """Return the time from which starts count as missed: the last start, or the creation or change of the schedule.

    since: when the current schedule was written; None if that is unknown.
    """
    meta, status = cron_job.metadata, cron_job.status
    begin = status.last_schedule_time or meta.creation_timestamp or now
    if since is not None:
        begin = max(begin, since)
    return begin if begin - now <= _FURTHEST_BACK else now - schedule.distance


def _warn_of_missed(schedule: Schedule, begin: datetime, now: datetime) -> tuple[Note, ...]:
    """Return a warning if many starts were missed, estimated from the interval between the first two."""
    first = schedule.next(begin)
    second = schedule.next(first) if first is not None else None
    if first is None or second is None or (now - first) // (second - first) < MANY_MISSED:
        return ()
    return (Note("Warning", "TooManyMissedTimes", _TOO_MANY),)
