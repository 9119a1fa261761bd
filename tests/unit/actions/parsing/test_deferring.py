"""When a job begins, as users write it."""

import time
from datetime import UTC, datetime

import pytest

from muster.actions.parsing.deferring import parse_begin

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _in_berlin(monkeypatch):
    """Where clocks go ahead in the night after the day of these tests."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+2h", "2026-03-28T14:00:00+00:00"),
        ("+1d12h", "2026-03-30T00:00:00+00:00"),
        ("18:00", "2026-03-28T17:00:00+00:00"),
        ("18:00:30", "2026-03-28T17:00:30+00:00"),
        ("13:00", "2026-03-29T11:00:00+00:00"),  # now: of tomorrow, in summer time
        ("8:00", "2026-03-29T06:00:00+00:00"),
        ("2026-03-29", "2026-03-28T23:00:00+00:00"),
        ("2026-03-29T08:00", "2026-03-29T06:00:00+00:00"),
        ("2026-03-29T08:00Z", "2026-03-29T08:00:00+00:00"),
    ],
)
def test_moments(text, expected):
    assert parse_begin(text, NOON).isoformat() == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("25:00", "'25:00' is no time to begin, as 18:00, +2h, 2026-01-31 or 2026-01-31T18:00"),
        ("soon", "'soon' is no time to begin, as 18:00, +2h, 2026-01-31 or 2026-01-31T18:00"),
        ("2026-02-30", "'2026-02-30' is no time to begin, as 18:00, +2h, 2026-01-31 or 2026-01-31T18:00"),
        ("0001-01-01", "'0001-01-01' is no time to begin, as 18:00, +2h, 2026-01-31 or 2026-01-31T18:00"),
        ("2026-03-28", "2026-03-28 is past; a job begins later, as 18:00, +2h, 2026-01-31 or 2026-01-31T18:00"),
    ],
)
def test_what_is_no_moment_is_refused(text, complaint):
    with pytest.raises(ValueError) as refused:
        parse_begin(text, NOON)
    assert str(refused.value) == complaint


@pytest.mark.parametrize("text", ["+", "+x", "+0s", "+-1h"])
def test_what_is_no_distance_is_refused(text):
    with pytest.raises(ValueError):
        parse_begin(text, NOON)
