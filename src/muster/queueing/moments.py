"""Arithmetic of moments that any client may have written: what is beyond the calendar is its first or last second."""

from datetime import UTC, datetime, timedelta
from typing import Final

# Whole seconds, as times are stored: what was written is what is read.
FIRST: Final = datetime.min.replace(tzinfo=UTC)
LAST: Final = datetime.max.replace(microsecond=0, tzinfo=UTC)

NEVER: Final = datetime.max.replace(tzinfo=UTC)


def later(moment: datetime, by: timedelta) -> datetime:
    """The moment so much later, or earlier if that is negative; at most `LAST`, at least `FIRST`."""
    try:
        return moment + by
    except OverflowError:
        return LAST if by > timedelta() else FIRST
