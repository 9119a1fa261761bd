"""Time limits and signals as users write them."""

import re

import pytest

from muster.actions.parsing.limits import parse_soft_signal, parse_time_limit
from muster.actions.submission.gang import SoftSignal


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1d", 86_400),
        ("2d1h30m", 178_200),
        ("1.5h", 5400),
        ("2:00:00", 7200),
        ("0:0:30", 30),
        ("100:00:00", 360_000),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("1-00:00:01", 86_401),
    ],
)
def test_times(text, seconds):
    assert parse_time_limit(text) == seconds


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0", "0 is no limit in Slurm: leave the time out"),
        ("90", "90 of what? Say 90s, 90m or 90h"),
        ("2:30", "2:30 may be minutes or hours: say 2:30:00, or 2m30s"),
        ("soon", "'soon' is no time, as 90s, 30m, 2h, 1h30m, 1d"),
        ("1d2d", "'1d2d' is no time"),
        ("1d-12h", "'1d-12h' is no time"),
        ("1d+12h", "'1d+12h' is no time"),
        ("d", "'d' is no time"),
        ("99999d", "99999d: it is from 1s to 68 years"),
        ("", "'' is no time"),
        ("1:2:3:4", "'1:2:3:4' is no time"),
        ("-1", "'-1' is no time"),
        ("٣-٣", "is no time"),
        ("0s", "0s: it is from 1s to 68 years"),
        ("-1h", "-1h: it is from 1s to 68 years"),
        ("0-0", "0-0: it is from 1s to 68 years"),
        ("99999-0", "99999-0: it is from 1s to 68 years"),
        ("9" * 5000, "is no time"),
        ("9" * 5000 + "h", "is no time"),
    ],
)
def test_what_is_no_time(text, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)) as refused:
        parse_time_limit(text)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("USR1@30", SoftSignal("USR1", 30)),
        ("SIGTERM@5", SoftSignal("TERM", 5)),
        ("usr2", SoftSignal("USR2", 60)),
        ("USR1@0", SoftSignal("USR1", 0)),
    ],
)
def test_signals(text, expected):
    assert parse_soft_signal(text, 100) == expected


@pytest.mark.parametrize(
    ("text", "limit", "complaint"),
    [
        ("USR9@3", 100, "'USR9@3' is not SIGNAL@SECONDS, such as USR1@60"),
        ("@3", 100, "is not SIGNAL@SECONDS"),
        ("USR1@", 100, "is not SIGNAL@SECONDS"),
        ("USR1@1m", 100, "is not SIGNAL@SECONDS"),
        ("B:USR1@3", 100, "is not SIGNAL@SECONDS"),
        ("_SETMASK@3", 100, "is not SIGNAL@SECONDS"),
        ("USR1@60", None, "a signal needs a time limit: add --time"),
        ("USR1@60", 60, "60 s before its limit, a job with a limit of 60 s has not begun"),
    ],
)
def test_what_is_no_signal(text, limit, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        parse_soft_signal(text, limit)
