"""The functions that read a part of a timestamp or a duration, and the text form of both."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from muster.cluster.apiserver.cel.library.overloads import Function, Functions
from muster.cluster.apiserver.cel.values import CelError, Duration, Timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR, _MINUTE, _SECOND, _MILLISECOND = 3600 * 10**9, 60 * 10**9, 10**9, 10**6


def show_timestamp(time: Timestamp) -> str:
    """Format a timestamp by RFC 3339, in UTC, without trailing zeroes in the fraction."""
    seconds, nanos = divmod(time.nanos, 10**9)
    fraction = f".{nanos:09}".rstrip("0") if nanos else ""
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def show_duration(duration: Duration) -> str:
    """Format a duration as seconds, such as `1.5s`."""
    sign = "-" if duration.nanos < 0 else ""
    seconds, nanos = divmod(abs(duration.nanos), 10**9)
    fraction = f".{nanos:09}".rstrip("0") if nanos else ""
    return f"{sign}{seconds}{fraction}s"


def _convert_to_zone(time: Timestamp, zone: str = "UTC") -> datetime:
    try:
        return (_EPOCH + timedelta(microseconds=time.nanos // 1000)).astimezone(_find_zone(zone))
    except OverflowError:
        raise CelError("timestamp overflow") from None


def _find_zone(name: str) -> tzinfo:
    sign = -1 if name.startswith("-") else 1
    hours, colon, minutes = name.lstrip("+-").partition(":")
    if colon and hours.isdecimal() and minutes.isdecimal() and int(hours) < 24 and int(minutes) < 60:
        return timezone(sign * timedelta(hours=int(hours), minutes=int(minutes)))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


def _make_truncation(unit: int) -> Callable[[Duration], int]:
    return lambda duration: int(abs(duration.nanos) // unit) * (-1 if duration.nanos < 0 else 1)


_PARTS: dict[str, Callable[[datetime], Any]] = {
    "getFullYear": lambda t: t.year,
    "getMonth": lambda t: t.month - 1,
    "getDayOfYear": lambda t: t.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda t: t.day - 1,
    "getDate": lambda t: t.day,
    "getDayOfWeek": lambda t: t.isoweekday() % 7,
    "getHours": lambda t: t.hour,
    "getMinutes": lambda t: t.minute,
    "getSeconds": lambda t: t.second,
    "getMilliseconds": lambda t: t.microsecond // 1000,
}


def _make_time_part(part: Callable[[datetime], Any]) -> Callable[..., Any]:
    return lambda *args: part(_convert_to_zone(*args))


_TIME_PARTS: list[Function] = [
    (name, signature, _make_time_part(part))
    for name, part in _PARTS.items()
    for signature in ("timestamp.() -> int", "timestamp.(string) -> int")
]

FUNCTIONS = Functions(
    table=(),
    standard=(
        *_TIME_PARTS,
        ("getHours", "duration.() -> int", _make_truncation(_HOUR)),
        ("getMinutes", "duration.() -> int", _make_truncation(_MINUTE)),
        ("getSeconds", "duration.() -> int", _make_truncation(_SECOND)),
        ("getMilliseconds", "duration.() -> int", _make_truncation(_MILLISECOND)),
    ),
)
