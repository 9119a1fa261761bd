from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.values import durations
from muster.api.values.durations import HOUR, MILLISECOND, MINUTE, SECOND, DurationError


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("5s", 5 * SECOND),
        ("1h30m", HOUR + 30 * MINUTE),
        ("300ms", 300 * MILLISECOND),
        ("1.5h", HOUR + 30 * MINUTE),
        ("-1.5s", -1500 * MILLISECOND),
        ("+5s", 5 * SECOND),
        (".5s", 500 * MILLISECOND),
        ("1us", 1000),
        ("1\u00b5s", 1000),
        ("1\u03bcs", 1000),
        ("10ns", 10),
        ("1m1s1ms", MINUTE + SECOND + MILLISECOND),
        ("0.3ns", 0),
        ("2562047h47m16.854775807s", 2**63 - 1),
    ],
)
def test_parse(text: Any, nanoseconds: Any) -> None:
    assert durations.parse(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("s", 'time: invalid duration "s"'),
        ("5", 'time: missing unit in duration "5"'),
        ("5y", 'time: unknown unit "y" in duration "5y"'),
        ("5 s", 'time: unknown unit " s" in duration "5 s"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("1" * 500 + "s", f'time: invalid duration "{"1" * 500}s"'),
        ('a"', 'time: invalid duration "a\\""'),
    ],
)
def test_parse_refuses(text: Any, sentence: Any) -> None:
    with pytest.raises(DurationError) as refusal:
        durations.parse(text)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1100, "1.1\u00b5s"),
        (300 * MILLISECOND, "300ms"),
        (1500 * MILLISECOND, "1.5s"),
        (MINUTE, "1m0s"),
        (90 * MINUTE, "1h30m0s"),
        (-SECOND, "-1s"),
        (HOUR + 1, "1h0m0.000000001s"),
    ],
)
def test_format(nanoseconds: Any, text: Any) -> None:
    assert durations.format(nanoseconds) == text


def test_seconds() -> None:
    assert durations.parse_seconds("1m30s") == 90.0


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_what_is_written_is_read(nanoseconds: Any) -> None:
    assert durations.parse(durations.format(nanoseconds)) == nanoseconds


@given(st.text(max_size=20))
def test_any_text_is_parsed_or_refused(text: Any) -> None:
    with suppress(DurationError):
        durations.parse(text)
