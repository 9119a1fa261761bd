"""Go's durations (`1h30m`, `300ms`), which are integers of nanoseconds in Muster."""

import re

NANOSECOND = 1
MICROSECOND = 1000 * NANOSECOND
MILLISECOND = 1000 * MICROSECOND
SECOND = 1000 * MILLISECOND
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

_UNITS = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "\u00b5s": MICROSECOND,  # the micro sign
    "\u03bcs": MICROSECOND,  # the Greek letter
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_MAX = 2**63 - 1
_MAX_LENGTH = 128  # characters; int() of a very long number is slow

_PART = r"(?a)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>[^0-9.]*)"


class DurationError(ValueError):
    """A text that is no duration. The message is Go's."""


def parse(text: str) -> int:
    """Parse a duration to nanoseconds. Smaller fractions are truncated.

    Raises:
        DurationError: the text is no duration.
    """
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest or len(rest) > _MAX_LENGTH:
        raise DurationError(f"time: invalid duration {_quote(text)}")
    total = 0
    while rest:
        part = re.match(_PART, rest)
        if part is None or not (part["whole"] or part["fraction"]):
            raise DurationError(f"time: invalid duration {_quote(text)}")
        if not part["unit"]:
            raise DurationError(f"time: missing unit in duration {_quote(text)}")
        if part["unit"] not in _UNITS:
            raise DurationError(f"time: unknown unit {_quote(part['unit'])} in duration {_quote(text)}")
        fraction = part["fraction"] or ""
        digits = int(part["whole"] + fraction or "0")
        total += digits * _UNITS[part["unit"]] // 10 ** len(fraction)
        rest = rest[part.end() :]
    if total > _MAX + negative:
        raise DurationError(f"time: invalid duration {_quote(text)}")
    return -total if negative else total


def format(nanoseconds: int) -> str:
    """Format a duration as Go does: `1h30m0s`, `1.5s`, `300ms`."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest == 0:
        return "0s"
    for unit, size in (("ns", NANOSECOND), ("\u00b5s", MICROSECOND), ("ms", MILLISECOND)):
        if rest < size * 1000:
            return f"{sign}{_format_decimal(rest, size)}{unit}"
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    text = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{text}{_format_decimal(rest, SECOND)}s"


def parse_seconds(text: str) -> float:
    """Parse a duration to seconds, for clocks.

    Raises:
        DurationError: the text is no duration.
    """
    return parse(text) / SECOND


def _format_decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}}".rstrip("0")


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
