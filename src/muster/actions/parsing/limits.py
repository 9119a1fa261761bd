"""Parse time limits of jobs, and the signals to send before a limit. Pure."""

import re
import signal

from muster.actions.submission.gang import SoftSignal
from muster.api.values import durations
from muster.api.values.durations import DurationError

_LONGEST_SECONDS = (1 << 31) - 1
_LONGEST_TEXT = 40
_FORMS = "as 90s, 30m, 2h, 1h30m, 1d, or as in Slurm 2:00:00 and 1-12 (days and hours)"

_SECONDS_PER_DAY = 86_400
_DAYS = re.compile(r"(?P<days>[0-9]{1,5})d(?P<rest>[^+-].*)?")

# Slurm's formats with days, and its only unambiguous format without days.
_CLOCK = re.compile(r"(?:(?P<days>\d{1,5})-)?(?P<hours>\d{1,7})(?::(?P<minutes>\d{1,7}))?(?::(?P<seconds>\d{1,7}))?")

# The default number of seconds between the signal and the limit, as in Slurm.
_USUAL_NOTICE = 60


def parse_time_limit(text: str) -> int:
    """Parse a time limit, such as `1h30m` or Slurm's `D-HH:MM:SS`, into seconds.

    Raises `ValueError` with a sentence for the user.
    """
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"{text[:_LONGEST_TEXT]!r}... is no time, {_FORMS}")
    seconds = _parse_clock(text) if re.fullmatch("[0-9:-]+", text) else _parse_duration(text)
    if not 1 <= seconds <= _LONGEST_SECONDS:
        raise ValueError(f"{text}: it is from 1s to 68 years, {_FORMS}")
    return seconds


def parse_soft_signal(text: str, limit: int | None) -> SoftSignal:
    """Parse `USR1@60`: a signal, and the number of seconds before the limit at which it is sent.

    Raises `ValueError` with a sentence for the user.
    """
    name, at, notice = text.partition("@")
    number = _parse_signal(name)
    if number is None or (at and not re.fullmatch("[0-9]{1,9}", notice)):
        raise ValueError(f"{text!r} is not SIGNAL@SECONDS, such as USR1@60")
    if limit is None:
        raise ValueError("a signal needs a time limit: add --time")
    seconds = int(notice) if at else _USUAL_NOTICE
    if seconds >= limit:
        raise ValueError(f"{seconds} s before its limit, a job with a limit of {limit} s has not begun")
    return SoftSignal(number.name.removeprefix("SIG"), seconds)


def _parse_signal(name: str) -> signal.Signals | None:
    name = name.upper().removeprefix("SIG")
    return signal.Signals.__members__.get(f"SIG{name}")


def _parse_duration(text: str) -> int:
    """Parse `1h30m` or `1d12h` into seconds. Raises `ValueError` with a sentence for the user."""
    days = _DAYS.fullmatch(text)
    whole, rest = (int(days["days"]), days["rest"] or "") if days is not None else (0, text)
    if days is not None and not rest:
        return whole * _SECONDS_PER_DAY
    try:
        return whole * _SECONDS_PER_DAY + durations.parse(rest) // durations.SECOND
    except DurationError:
        raise ValueError(f"{text!r} is no time, {_FORMS}") from None


def _parse_clock(text: str) -> int:
    """Parse `D-HH[:MM[:SS]]` or `HH:MM:SS` into seconds.

    Raises `ValueError` for any other text, including Slurm's other formats, which users misunderstand.
    """
    if text.isdecimal() and not int(text):
        raise ValueError(f"{text} is no limit in Slurm: leave the time out")
    if text.isdecimal():
        raise ValueError(f"{text} of what? Say {text}s, {text}m or {text}h")
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time, {_FORMS}")
    days, hours, minutes, seconds = (int(match[part] or 0) for part in ("days", "hours", "minutes", "seconds"))
    if match["days"] is None and match["seconds"] is None:
        raise ValueError(f"{text} may be minutes or hours: say {text}:00, or {hours}m{minutes}s")
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
