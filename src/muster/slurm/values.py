"""Parse the values of the options of sbatch and srun. Pure.

All functions raise `OptionError` for an invalid value, with a message that starts with the value.
"""

import re
import signal

from msgspec import Struct

from muster.api.ours.trials import Array
from muster.slurm.options import OptionError

_MOST_DIGITS = 9
_UNITS = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}  # in MiB, Slurm's unit
_ENDLESS = ("0", "-1", "UNLIMITED", "INFINITE")
_CLOCK = re.compile(r"(?:(\d{1,5})-)?(\d{1,7})(?::(\d{1,7}))?(?::(\d{1,7}))?", re.ASCII)
_SIGNAL = re.compile(r"(?:([BR]+):)?(?:SIG)?([A-Z0-9]+)(?:@(\d{1,9}))?", re.ASCII)
_USUAL_NOTICE = 60
_ENDS = {"afterok": "ok", "afternotok": "fail", "afterany": "any"}
# The mail types with their events of `muster run --notify-on`, and the mail types that Muster does not support.
_MAIL = {
    "NONE": (),
    "BEGIN": ("start",),
    "END": ("end",),
    "FAIL": ("fail",),
    "REQUEUE": ("requeue",),
    "ALL": ("start", "end", "fail", "requeue"),
    "TIME_LIMIT": ("fail",),
    "INVALID_DEPEND": ("fail",),
}
_NO_MAIL = ("TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS", "STAGE_OUT")
_FROM_NOW = re.compile(r"now(?:\+(\d{1,8})(|(?:second|minute|hour|day|week)s?))?", re.ASCII)
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?|\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?)?", re.ASCII)
_UNIT_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_SECONDS = {"": 1} | _UNIT_SECONDS | {f"{unit}s": seconds for unit, seconds in _UNIT_SECONDS.items()}
_HOURS = {"midnight": "00:00", "noon": "12:00", "fika": "15:00", "teatime": "16:00"}


class Notice(Struct, frozen=True):
    """A signal to send before the time limit.

    name: the name of the signal, without `SIG`.
    seconds: the number of seconds between the signal and the limit.
    to_script: whether the script gets the signal, rather than the tasks of its steps.
    """

    name: str
    seconds: int
    to_script: bool


def count(text: str) -> int:
    """Parse an integer of at least 1."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text)):
        raise OptionError(f"{text!r} is no number of at least 1")
    return int(text)


def parse_nodes(text: str) -> int:
    """Parse a number of nodes, `4` or `2-4`. For a range, return the lower bound, with which the job may run."""
    least, dash, most = text.partition("-")
    if dash and count(most) < count(least):
        raise OptionError(f"{text!r}: the second number is the smaller one")
    return count(least)


def parse_array(text: str) -> str:
    """Check the indexes of an array, such as `0-99%8`, and return the text unchanged.

    `muster run --array` checks the part after %.
    """
    try:
        Array.parse(text.partition("%")[0])
    except ValueError as error:
        raise OptionError(str(error)) from None
    return text


def parse_mebibytes(text: str) -> int:
    """Parse an amount of memory, `4G` or `4000` (MiB); return MiB, rounded up. 0 means all memory of a node."""
    match = re.fullmatch(r"(\d{1,9})([KMGT]?)B?", text.upper(), re.ASCII)
    if match is None:
        raise OptionError(f"{text!r} is no memory, as 4000 (MB), 512M or 16G")
    return -int(-int(match[1]) * _UNITS[match[2] or "M"] // 1)


def parse_seconds(text: str) -> int | None:
    """Parse a time limit, `90` (minutes), `1:30:00` or `2-12` (days-hours); return seconds, or None for no limit."""
    if text.upper() in _ENDLESS:
        return None
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise OptionError(f"{text!r} is no time: minutes, minutes:seconds, hours:minutes:seconds, or days-hours")
    days, *parts = match.groups()
    first, second, third = (int(part or 0) for part in parts)
    if days is not None:
        return ((int(days) * 24 + first) * 60 + second) * 60 + third
    if parts[2] is not None:
        return (first * 60 + second) * 60 + third
    return first * 60 + second


def parse_dependencies(text: str) -> tuple[str, ...]:
    """Parse dependencies, `afterok:a:b,afterany:c`; return values of `muster run --after`, such as `a:ok`."""
    if "?" in text:
        raise OptionError(f"{text!r}: a job waits for all of its dependencies; separate them with commas")
    parsed = []
    for part in text.split(","):
        kind, *names = part.split(":")
        if kind not in _ENDS:
            raise OptionError(f"{kind!r}: a job waits for ends of others: {', '.join(_ENDS)}")
        if not all(names) or not names:
            raise OptionError(f"{part!r} names no job: expected {kind}:JOB")
        if number := next((name for name in names if name.isdecimal()), ""):
            raise OptionError(f"{number} is a number, and jobs have names here: {kind}:NAME")
        parsed += [f"{name}:{_ENDS[kind]}" for name in names]
    return tuple(parsed)


def parse_begin(text: str) -> str:
    """Parse the earliest start, `now+2hours` or `16:00`; return a value for `muster run --begin`, or "" for now."""
    match = _FROM_NOW.fullmatch(text)
    if match is not None:
        return f"+{int(match[1]) * _SECONDS[match[2]]}s" if match[1] and int(match[1]) else ""
    if text.lower() in _HOURS:
        return _HOURS[text.lower()]
    if _TIME_OF_DAY.fullmatch(text):
        return text
    raise OptionError(f"{text!r} is no time: now+2hours, 16:00, noon, 2026-01-31 or 2026-01-31T16:00")


def mail_events(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Parse mail types, `BEGIN,FAIL`; return events of `muster run --notify-on`, and mail types without an event."""
    names = [name.strip().upper() for name in text.split(",")]
    if unknown := next((name for name in names if name not in (*_MAIL, *_NO_MAIL)), None):
        raise OptionError(f"{unknown!r} is no type of mail: {', '.join(_MAIL)}")
    events = dict.fromkeys(event for name in names for event in _MAIL.get(name, ()))
    return tuple(events), tuple(name for name in names if name in _NO_MAIL)


def parse_gpus(text: str) -> tuple[int, str]:
    """Parse a number of GPUs, `4`, `a100:4` or `a100:2,v100:2`; return the sum, and the types joined by commas."""
    pairs = [part.rpartition(":") for part in text.split(",")]
    return sum(count(number) for _, _, number in pairs), ",".join(kind for kind, _, _ in pairs if kind)


def generic_resources(text: str) -> tuple[int, str]:
    """Parse generic resources, `gpu:4` or `gpu:a100:4`; return GPUs per node, and the types joined by commas."""
    number, kinds = 0, []
    for part in text.split(",") if text.lower() not in ("", "none") else ():
        name, *more = part.removeprefix("gres:").removeprefix("gres/").split(":")
        if name != "gpu" or len(more) > 2:
            raise OptionError(f"{part!r}: of generic resources, Muster knows only gpu, as gpu:4 or gpu:a100:4")
        if more and more[-1].isdecimal():
            number += count(more.pop())
        else:
            number += 1
        kinds += more
    return number, ",".join(kinds)


def parse_signal(text: str) -> Notice:
    """Parse a signal before the time limit: `USR1` (60 s before), `10@300` or `B:TERM@120`."""
    match = _SIGNAL.fullmatch(text.upper())
    number = _find_signal(match[2]) if match else None
    if match is None or number is None:
        raise OptionError(f"{text!r} is not [B:]SIGNAL[@SECONDS], as USR1@60 or B:TERM@120")
    ahead = int(match[3]) if match[3] else _USUAL_NOTICE
    return Notice(number.name.removeprefix("SIG"), ahead, "B" in (match[1] or ""))


def _find_signal(name: str) -> signal.Signals | None:
    if name.isdecimal():
        return next((one for one in signal.Signals if str(one.value) == name), None)
    return signal.Signals.__members__.get(f"SIG{name}")
