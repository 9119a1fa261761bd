"""Parse cron schedules as Kubernetes does (robfig/cron v3, `ParseStandard`), and find their starts.

A schedule has five fields with names, ranges and steps, or is a shorthand such as `@daily`, or `@every 1h30m`. A start
is a minute whose local time, in the schedule's time zone, matches the fields. A matching local time that daylight
saving time skips has no start; one that it repeats has two.

Existing packages for cron expressions parse other dialects (7 for Sunday, `L`, `#`), start at skipped times, and have
other error messages. So Muster has its own parser.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from muster.api.values import durations

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
# The longest time between two 29 February, around a year such as 2100.
_LONGEST_WAIT = timedelta(days=8 * 366)
_MOST_DIGITS = 18


class ScheduleError(ValueError):
    """A text that is no valid cron schedule. The message is robfig/cron's."""


class Schedule(Protocol):
    """A cron schedule, which computes the moments of its starts. All moments are in UTC."""

    @property
    def distance(self) -> timedelta:
        """The least time between two starts."""
        ...

    def next(self, after: datetime) -> datetime | None:
        """Return the first start later than `after`; None if there is none."""
        ...

    def latest(self, since: datetime, now: datetime) -> datetime | None:
        """Return the last start later than `since` and not later than `now`; None if there is none."""
        ...


class Interval(Struct, frozen=True):
    """The schedule `@every DURATION`, whose starts have a fixed distance, counted from the time that is asked about."""

    distance: timedelta

    def next(self, after: datetime) -> datetime | None:
        """Return the first start later than `after`; None if it is past the last year that Python supports."""
        try:
            return after.replace(microsecond=0) + self.distance
        except OverflowError:
            return None

    def latest(self, since: datetime, now: datetime) -> datetime | None:
        """Return the last start later than `since` and not later than `now`; None if there is none."""
        since = since.replace(microsecond=0)
        count = (now - since) // self.distance
        return since + count * self.distance if count > 0 else None


class Calendar(Struct, frozen=True):
    """A schedule of five fields. Each field lists the values that match, in order.

    either_day: whether a day matches by its number or by its weekday; otherwise it has to match by both.
    zone: the time zone of the clock; None for the time zone of the machine.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]  # 0 is Sunday
    either_day: bool
    zone: tzinfo | None

    @property
    def distance(self) -> timedelta:
        """The least time between two starts."""
        return _MINUTE

    def next(self, after: datetime) -> datetime | None:
        """Return the first start later than `after`; None if no date matches, such as 30 February."""
        try:
            return self._search_next(after.replace(second=0, microsecond=0) + _MINUTE)
        except OverflowError:  # past the last year that Python knows
            return None

    def latest(self, since: datetime, now: datetime) -> datetime | None:
        """Return the last start later than `since` and not later than `now`; None if there is none.

        The search halves the time in question with each step, so that years cost little.
        """
        latest, end = None, now
        upcoming = self.next(since)
        while upcoming is not None and upcoming <= now:
            middle = upcoming + (end - upcoming) / 2
            later = self.next(middle)
            if later is not None and later <= now:
                latest = later
            else:
                latest, end = upcoming, middle
            upcoming = self.next(latest)
        return latest

    def _search_next(self, moment: datetime) -> datetime | None:
        limit = moment + _LONGEST_WAIT
        while moment <= limit:
            reading = moment.astimezone(self.zone)
            wait = self._find_wait(reading)
            if not wait:
                return moment
            # The reading after the wait is the expected one only if the clock is not changed meanwhile.
            while wait > _MINUTE and (moment + wait).astimezone(self.zone).utcoffset() != reading.utcoffset():
                wait = max(_MINUTE, wait // 2 // _MINUTE * _MINUTE)
            moment += wait
        return None

    def _find_wait(self, reading: datetime) -> timedelta:
        """Return a time span from this clock time on in which no minute matches; zero if the minute itself matches."""
        midnight = reading.replace(hour=0, minute=0, second=0)
        if reading.month not in self.months:
            return (midnight.replace(day=1) + 31 * _DAY).replace(day=1) - reading
        if not self._has_day(reading):
            return midnight + _DAY - reading
        if reading.hour not in self.hours:
            return midnight + _find_above(reading.hour, self.hours, 24) * _HOUR - reading
        if reading.minute not in self.minutes:
            return (_find_above(reading.minute, self.minutes, 60) - reading.minute) * _MINUTE
        return timedelta()

    def _has_day(self, reading: datetime) -> bool:
        by_number, by_weekday = reading.day in self.days, reading.isoweekday() % 7 in self.weekdays
        return by_number or by_weekday if self.either_day else by_number and by_weekday


def parse(text: str, zone: tzinfo | None = UTC) -> Schedule:
    """Parse a schedule, whose fields are readings of a clock in the zone. Raises `ScheduleError`.

    zone: None for the time zone of the machine.
    """
    if not text:
        raise ScheduleError("empty spec string")
    if text.startswith("@"):
        return _parse_descriptor(text, zone)
    words = text.split()
    if len(words) != len(_FIELDS):
        expression = " ".join(words)
        raise ScheduleError(f"expected exactly {len(_FIELDS)} fields, found {len(words)}: [{expression}]")
    minute, hour, day, month, weekday = (_parse_field(word, field) for word, field in zip(words, _FIELDS, strict=True))
    return Calendar(
        minute.values, hour.values, day.values, month.values, weekday.values,
        either_day=not (day.is_any or weekday.is_any), zone=zone,
    )  # fmt: skip


def find_zone(name: str) -> ZoneInfo | None:
    """Return the time zone of this name; None if this machine knows no such zone."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


class _Field(NamedTuple):
    """The allowed values of a field of a cron schedule, and the names of values (`jan`), in lower case."""

    least: int
    most: int
    names: Mapping[str, int]


class _Matching(NamedTuple):
    """The values that a field of a cron schedule matches.

    is_any: whether it has a `*` or `?` without a step above 1. Of the two fields for days, only the other one then
    limits the days.
    """

    values: tuple[int, ...]
    is_any: bool


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    _Field(0, 59, {}),
    _Field(0, 23, {}),
    _Field(1, 31, {}),
    _Field(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Field(0, 6, {name: number for number, name in enumerate(_WEEKDAYS)}),
)
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "


def _parse_descriptor(text: str, zone: tzinfo | None) -> Schedule:
    if (fields := _DESCRIPTORS.get(text)) is not None:
        return parse(fields, zone)
    if not text.startswith(_EVERY):
        raise ScheduleError(f"unrecognized descriptor: {text}")
    try:
        seconds = durations.parse(text.removeprefix(_EVERY)) // durations.SECOND
    except durations.DurationError as error:
        raise ScheduleError(f"failed to parse duration {text}: {error}") from None
    # The name of a Job has the minute of its start, so that a minute has one start at most.
    return Interval(max(timedelta(seconds=seconds), _MINUTE))


def _parse_field(text: str, field: _Field) -> _Matching:
    """Parse a field: ranges, separated by commas. Raises `ScheduleError`."""
    values: set[int] = set()
    is_any = False
    for part in filter(None, text.split(",")):
        matching = _parse_range(part, field)
        values |= set(matching.values)
        is_any |= matching.is_any
    return _Matching(tuple(sorted(values)), is_any)


def _parse_range(text: str, field: _Field) -> _Matching:
    """Parse `*`, `N` or `N-M`, each with or without `/STEP`. Raises `ScheduleError`.

    N is a number, or a name such as `mon`. `?` means `*`. `N/STEP` extends to the largest value.
    """
    bounds, *steps = text.split("/")
    low, *highs = bounds.split("-")
    is_any = low in ("*", "?")
    if is_any:
        start, end = field.least, field.most
    else:
        start = end = _parse_value(low, field.names)
        if len(highs) > 1:
            raise ScheduleError(f"too many hyphens: {text}")
        if highs:
            end = _parse_value(highs[0], field.names)
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {text}")
    step = _parse_number(steps[0]) if steps else 1
    if steps and not highs:
        end = field.most
    _check_range(text, field, start, end, step)
    return _Matching(tuple(range(start, end + 1, step)), is_any and step == 1)


def _check_range(text: str, field: _Field, start: int, end: int, step: int) -> None:
    if start < field.least:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({field.least}): {text}")
    if end > field.most:
        raise ScheduleError(f"end of range ({end}) above maximum ({field.most}): {text}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")


def _parse_value(text: str, names: Mapping[str, int]) -> int:
    number = names.get(text.lower())
    return _parse_number(text) if number is None else number


def _parse_number(text: str) -> int:
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit()):
        raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if len(digits) > _MOST_DIGITS:
        raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    return int(digits)


def _find_above(value: int, values: Sequence[int], otherwise: int) -> int:
    """Return the first of the sorted values that is greater than `value`; `otherwise` if none is."""
    return next((each for each in values if each > value), otherwise)
