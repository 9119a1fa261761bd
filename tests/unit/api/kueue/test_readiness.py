"""The annotations of readiness: what they say, and what is said of those that say nothing."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.config import WaitForPodsReady
from muster.api.kueue.readiness import ReadyAnnotationError, parse_annotation, parse_job_start
from muster.api.values.durations import MINUTE

BASE = WaitForPodsReady(timeout=3 * MINUTE, recovery_timeout=None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", BASE),
        (" false ", None),
        ("timeout=10m", WaitForPodsReady(timeout=10 * MINUTE, recovery_timeout=None)),
        ("true, recoveryTimeout=5m", WaitForPodsReady(timeout=3 * MINUTE, recovery_timeout=5 * MINUTE)),
        (
            "timeout = 1m,blockAdmission=true",
            WaitForPodsReady(timeout=MINUTE, recovery_timeout=None, block_admission=True),
        ),
    ],
)
def test_what_an_annotation_says(text: str, expected: WaitForPodsReady | None) -> None:
    assert parse_annotation(text, BASE) == expected


def test_without_settings_the_defaults_are_the_base() -> None:
    assert parse_annotation("true", None) == WaitForPodsReady()


@pytest.mark.parametrize(
    "text", ["", "yes", "false,timeout=1m", "timeout", "timeout=1", "timeout=-1s", "blockAdmission=1"]
)
def test_what_is_not_understood(text: str) -> None:
    with pytest.raises(ReadyAnnotationError):
        parse_annotation(text, BASE)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (lambda text: parse_annotation(text, None), parse_job_start):
        with suppress(ReadyAnnotationError):
            parse(text)


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"])
def test_when_a_job_began(text: str) -> None:
    assert parse_job_start(text) == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "soon", "2026-01-01T00:00:00", "2026-01-01", "2026-13-01T00:00:00Z"])
def test_no_moment(text: Any) -> None:
    with pytest.raises(ReadyAnnotationError, match="must be a time with a time zone"):
        parse_job_start(text)
