"""Delays grow, stay in their bounds, and differ between waiters."""

import pytest

from muster.runtime.control.backoff import RECONNECT, Backoff
from muster.runtime.control.queue import RETRY
from muster.runtime.ids import Random


@pytest.mark.parametrize("backoff", [RECONNECT, RETRY, Backoff(1.0, 1.0), Backoff(2.0, 3.0)])
def test_every_delay_is_between_first_and_limit(backoff: Backoff) -> None:
    random = Random(seed=1)
    for failures in [*range(1, 100), 10_000]:
        assert backoff.first <= backoff.delay(failures, random) <= backoff.limit


def test_delays_double_up_to_the_limit() -> None:
    random = Random(seed=1)
    bounds = [(0.8, 1.6), (1.6, 3.2), (3.2, 6.4), (6.4, 12.8), (12.8, 25.6), (15.0, 30.0), (15.0, 30.0)]
    for failures, (low, high) in enumerate(bounds, 1):
        assert all(low <= RECONNECT.delay(failures, random) < high for _ in range(100))


def test_waiters_at_the_limit_do_not_wake_together() -> None:
    random = Random(seed=1)
    assert len({RECONNECT.delay(50, random) for _ in range(100)}) == 100
