"""What a worker says is written here only as far as the API takes it."""

from datetime import UTC, datetime

import msgspec
import pytest

from muster.api.core import POD
from muster.api.meta import Condition
from muster.api.status import ApiError, Status
from muster.multicluster.links.sanitizing import (
    add_time_zone,
    in_one_line,
    one_line,
    sanitize_conditions,
    sanitize_reason,
)
from muster.runtime.transport import TransportError

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Succeeded", "Succeeded"),
        ("A", "A"),
        ("Due_to:this,too", "Due_to:this,too"),
        ("", "Unknown"),
        ("9Lives", "Unknown"),
        ("has space", "Unknown"),
        ("Ends:", "Unknown"),
        ("Succeeded\n", "Unknown"),
        ("A" * 1024, "A" * 1024),
        ("A" * 1025, "Unknown"),
    ],
)
def test_a_reason_is_one_or_unknown(said: str, expected: str) -> None:
    assert sanitize_reason(said) == expected


def test_a_sentence_is_one_line_of_what_can_be_shown() -> None:
    assert one_line("no\nroom\x1b[31m \ud800") == "no room [31m  "
    assert one_line("x" * 1000) == "x" * 500


@pytest.mark.parametrize("error", [TransportError("no\nERROR"), ApiError(Status(code=403, message="no\nERROR"))])
def test_an_error_keeps_its_kind_and_is_one_line(error: Exception) -> None:
    assert str(in_one_line(error)) == "no ERROR"
    assert type(in_one_line(error)) is type(error)


def said(type: str = "Done", status: str = "True", reason: str = "R", message: str = "m", **more: object) -> Condition:
    return Condition(type=type, status=status, reason=reason, message=message, **{"last_transition_time": NOW, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("told", "written"),
    [
        pytest.param((said(), said(type="Other")), (said(), said(type="Other")), id="as they are"),
        pytest.param((said(), said(status="False")), (said(),), id="the first of a type"),
        pytest.param((said(reason=""),), (said(reason="Unknown"),), id="a reason that is none"),
        pytest.param((said(message="a\nb"),), (said(message="a b"),), id="a message of two lines"),
        pytest.param((said(observed_generation=-1),), (said(observed_generation=0),), id="a generation that is none"),
        pytest.param((said(type="not one"), said(type="")), (), id="a type that is none"),
        pytest.param((said(status="Perhaps"),), (), id="a status that is none"),
        pytest.param((said(last_transition_time=None),), (), id="no moment"),
    ],
)
def test_conditions(told: tuple[Condition, ...], written: tuple[Condition, ...]) -> None:
    assert sanitize_conditions(told) == written


def pod_started(at: str) -> object:
    running = {"name": "c", "state": {"running": {"startedAt": at}}}
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": at}
    status = {"phase": "Running", "startTime": at, "conditions": [condition], "containerStatuses": [running]}
    return msgspec.convert({"status": status}, POD.type)


def test_a_time_without_a_zone_is_in_utc_wherever_it_is_in_a_status() -> None:
    right = pod_started("2026-01-02T03:04:05Z")
    assert add_time_zone(pod_started("2026-01-02T03:04:05")) == right
    assert add_time_zone(right) is right
