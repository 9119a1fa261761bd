"""Tests of past usage in the status of LocalQueues."""

from datetime import UTC, datetime, timedelta

import pytest

from muster.api.kueue import AdmissionFairSharingStatus
from muster.queueing.model import FlavorResource
from muster.queueing.pending.usage import RecentUsage
from muster.queueing.pending.usagestatus import by_resource, make_status, read_account

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def status(cpu: str, at: datetime = NOW, **more: str) -> AdmissionFairSharingStatus:
    return AdmissionFairSharingStatus(consumed_resources={"cpu": cpu, **more}, last_update=at)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(None, RecentUsage(NOW), id="no status"),
        pytest.param(AdmissionFairSharingStatus(consumed_resources={}), RecentUsage(NOW), id="an empty one"),
        pytest.param(status("0", NOW - HOUR), RecentUsage(NOW), id="nothing was consumed: no usage since then"),
        pytest.param(status("1500m", NOW - HOUR), RecentUsage(NOW - HOUR, {"cpu": 1500.0}), id="something was"),
        pytest.param(
            status("1", NOW, memory="2Ki"), RecentUsage(NOW, {"cpu": 1000.0, "memory": 2048.0}), id="two things"
        ),
        pytest.param(status("1", NOW + HOUR), RecentUsage(NOW, {"cpu": 1000.0}), id="a moment that is still to come"),
    ],
)
def test_account(given: AdmissionFairSharingStatus | None, expected: RecentUsage):
    assert read_account(given, NOW) == expected


@pytest.mark.parametrize(
    ("consumed", "minutes", "used", "old", "expected"),
    [
        pytest.param({"cpu": 1000.4}, 5, True, None, status("1", NOW + 5 * MINUTE), id="first"),
        pytest.param({"cpu": 1000.4}, 5, True, status("1"), status("1", NOW + 5 * MINUTE), id="in use, the same"),
        pytest.param({"cpu": 900.0}, 5, False, status("1"), status("1"), id="fades as expected"),
        pytest.param({"cpu": 500.0}, 60, False, status("1"), status("500m", NOW + HOUR), id="halved"),
        pytest.param({"cpu": 0.4}, 5, False, status("1m"), status("0", NOW + 5 * MINUTE), id="gone"),
        pytest.param({"cpu": 0.4}, 600, False, status("0"), status("0"), id="gone for long"),
        pytest.param(
            {},
            5,
            False,
            None,
            AdmissionFairSharingStatus(consumed_resources={}, last_update=NOW + 5 * MINUTE),
            id="never used",
        ),
        pytest.param({"cpu": 400.0}, 5, False, None, status("400m", NOW + 5 * MINUTE), id="used before it was shown"),
        pytest.param(
            {"cpu": 1.0}, 5, True, status("1", gpu="2"), status("1m", NOW + 5 * MINUTE, gpu="0"), id="used once"
        ),
    ],
)
def test_shown(
    consumed: dict[str, float],
    minutes: int,
    used: bool,
    old: AdmissionFairSharingStatus | None,
    expected: AdmissionFairSharingStatus | None,
):
    now = NOW + timedelta(minutes=minutes, microseconds=7)
    assert make_status(RecentUsage(now, consumed), old, used=used, half_life=HOUR) == expected


def test_flavors_do_not_matter():
    usage = {FlavorResource("a", "cpu"): 1000, FlavorResource("b", "cpu"): 500, FlavorResource("b", "gpu"): 2}
    assert by_resource(usage) == {"cpu": 1500, "gpu": 2}


def test_what_a_queue_covers_is_named_though_nothing_was_consumed() -> None:
    first = make_status(RecentUsage(NOW, {"cpu": 1500.0}), None, used=True, half_life=HOUR, covered=("cpu", "gpu"))
    assert first == AdmissionFairSharingStatus(consumed_resources={"cpu": "1500m", "gpu": "0"}, last_update=NOW)
