"""The forecasts on the page of a queue."""

from datetime import UTC, datetime

import pytest

from muster.dashboard.pages.queues.one import find_shared_doubt
from muster.queueing.scheduling.estimate import Certainty, StartEstimate

SOON = StartEstimate(datetime(2026, 1, 1, tzinfo=UTC), Certainty.LIKELY, "first ends then")
FORBIDDEN, ENDLESS = (
    StartEstimate(None, Certainty.NONE, why) for why in ("you may not list workloads", "x never ends")
)


@pytest.mark.parametrize(
    ("starts", "doubt"),
    [
        ([FORBIDDEN, FORBIDDEN], "you may not list workloads"),
        ([FORBIDDEN], ""),
        ([FORBIDDEN, ENDLESS], ""),
        ([FORBIDDEN, SOON], ""),
        ([SOON, SOON], ""),
        ([], ""),
    ],
    ids=["all alike", "one only", "different reasons", "one is known", "all known", "none"],
)
def test_one_doubt_about_all_starts_is_said_once(starts: list[StartEstimate], doubt: str) -> None:
    assert find_shared_doubt(starts) == doubt
