"""Parse times in the forms that users write: `2h` ago, `today`, `2026-01-31`, `2026-01-31T14:00`."""

import re
from datetime import datetime, timedelta

import click

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = r"(?a)(?:\d{1,6}[smhdw])+"
_DAYS = {"today": 0, "yesterday": 1}


def parse_moment(text: str, now: datetime) -> datetime:
    """Return the time that a text names, such as 2h (ago), today or 2026-01-31T14:00.

    If the text names no time zone, the time is in the time zone of `now`. Raises `click.BadParameter`.
    """
    try:
        if re.fullmatch(_AGO, text):
            parts = re.findall(r"(\d+)(\w)", text, re.ASCII)
            return now - sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())
        if text in _DAYS:
            return now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=_DAYS[text])
        result = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is no moment such as 2h, 3d12h, today, 2026-01-31 or 2026-01-31T14:00"
        ) from None
    return result if result.tzinfo is not None else result.replace(tzinfo=now.tzinfo)
