from datetime import UTC, datetime, timedelta, timezone

import click
import pytest

from muster.cli.names.moments import parse_moment

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", datetime(2026, 3, 4, 5, 4, 37, tzinfo=ZONE)),
        ("1w1d", datetime(2026, 2, 24, 5, 6, 7, tzinfo=ZONE)),
        ("2h30m", datetime(2026, 3, 4, 2, 36, 7, tzinfo=ZONE)),
        ("today", datetime(2026, 3, 4, tzinfo=ZONE)),
        ("yesterday", datetime(2026, 3, 3, tzinfo=ZONE)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=ZONE)),
        ("2026-01-31T14:00", datetime(2026, 1, 31, 14, tzinfo=ZONE)),
        ("2026-01-31 14:00:01", datetime(2026, 1, 31, 14, 0, 1, tzinfo=ZONE)),
        ("2026-01-31T14:00Z", datetime(2026, 1, 31, 14, tzinfo=UTC)),
    ],
)
def test_moments_as_people_write_them(text: str, expected: datetime) -> None:
    assert parse_moment(text, NOW) == expected


NO_MOMENTS = ["", "2", "2 h", "-2h", "999999w", "٢h", "now-ish", "2026-13-01", "1h" * 100_000 + "x"]


@pytest.mark.parametrize("text", NO_MOMENTS)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no moment"):
        parse_moment(text, NOW)
