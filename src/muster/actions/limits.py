"""How long a job may run, and what its workers are told before the end, as users write both. Pure."""

import re
import signal

from muster.actions.gang import SoftSignal
from muster.api.values import durations
from muster.api.values.durations import DurationError

_LONGEST_SECONDS = (1 << 31) - 1
_LONGEST_TEXT = 40
_FORMS = "as 90s, 30m, 2h, 1h30m, or as in Slurm 2:00:00 and 1-12 (days and hours)"

# Slurm's forms with days, and the one without that can be nothing else.
_CLOCK = re.compile(r"(?:(?P<days>\d{1,5})-)?(?P<hours>\d{1,7})(?::(?P<minutes>\d{1,7}))?(?::(?P<seconds>\d{1,7}))?")

# How long before the end a soft signal comes, if that is not said; as in Slurm.
_USUAL_NOTICE = 60


def time_limit(text: str) -> int:
    """In whole seconds. Raises `ValueError` with a sentence for the user."""
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"{text[:_LONGEST_TEXT]!r}... is no time, {_FORMS}")
    found = _clock(text) if re.fullmatch("[0-9:-]+", text) else _duration(text)
    if not 1 <= found <= _LONGEST_SECONDS:
        raise ValueError(f"{text}: it is from 1s to 68 years, {_FORMS}")
    return found


def soft_signal(text: str, limit: int | None) -> SoftSignal:
    """`USR1@60`: a signal, and how many seconds before the limit. Raises `ValueError` with a sentence for the user."""
    name, at, notice = text.partition("@")
    number = _signal(name)
    if number is None or (at and not re.fullmatch("[0-9]{1,9}", notice)):
        raise ValueError(f"{text!r} is not SIGNAL@SECONDS, such as USR1@60")
    if limit is None:
        raise ValueError("it comes before the end of a job that has a --time")
    seconds = int(notice) if at else _USUAL_NOTICE
    if seconds >= limit:
        raise ValueError(f"{seconds} s before its end, a job with a limit of {limit} s has not begun")
    return SoftSignal(number.name.removeprefix("SIG"), seconds)


def _signal(name: str) -> signal.Signals | None:
    name = name.upper().removeprefix("SIG")
    return signal.Signals.__members__.get(f"SIG{name}")


def _duration(text: str) -> int:
    try:
        return durations.parse(text) // durations.SECOND
    except DurationError:
        raise ValueError(f"{text!r} is no time, {_FORMS}") from None


def _clock(text: str) -> int:
    """`D-HH[:MM[:SS]]` or `HH:MM:SS`. What else Slurm takes, other people read in another way."""
    if text.isdecimal():
        raise ValueError(f"{text} of what? Say {text}s, {text}m or {text}h")
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no time, {_FORMS}")
    days, hours, minutes, seconds = (int(found[part] or 0) for part in ("days", "hours", "minutes", "seconds"))
    if found["days"] is None and found["seconds"] is None:
        raise ValueError(f"{text} may be minutes or hours: say {text}:00, or {hours}m{minutes}s")
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
