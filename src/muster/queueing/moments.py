"""Add durations to times that clients wrote. A result outside the calendar becomes its first or last second."""

from datetime import UTC, datetime, timedelta
from typing import Final

# Whole seconds, like all stored times, so that a stored time is read back unchanged.
FIRST: Final = datetime.min.replace(tzinfo=UTC)
LAST: Final = datetime.max.replace(microsecond=0, tzinfo=UTC)

NEVER: Final = datetime.max.replace(tzinfo=UTC)


def shift_moment(moment: datetime, by: timedelta) -> datetime:
    """Return `moment` plus the duration `by`, which may be negative; the result stays between `FIRST` and `LAST`."""
    try:
        return moment + by
    except OverflowError:
        return LAST if by > timedelta() else FIRST
