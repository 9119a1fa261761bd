"""The numbers of missing quota in the sentence of a queue."""

import pytest

from muster.insight.forecasts.forecast import Need
from muster.insight.quota.lack import update_lack

CPU = "insufficient unused quota for cpu in flavor f"
GIBIBYTE = 2**30


def need(resource: str, asked: int, available: int) -> Need:
    return Need("f", resource, asked, nominal=0, used=0, available=available, most=0)


@pytest.mark.parametrize(
    ("reason", "now"),
    [
        (f"{CPU}, 1 more needed", f"{CPU}, 25 more needed"),
        (f"{CPU}, 500m more needed; x", f"{CPU}, 25 more needed; x"),
        (
            "insufficient unused quota for memory in flavor f, 1Gi more needed",
            "insufficient unused quota for memory in flavor f, 2Gi more needed",
        ),
        (
            "insufficient unused quota for pods in flavor f, 3 more needed",
            "insufficient unused quota for pods in flavor f when it was last considered",
        ),
        (
            "insufficient unused quota for cpu in flavor other, 1 more needed",
            "insufficient unused quota for cpu in flavor other, 1 more needed",
        ),
        ("waiting for 3 more pods", "waiting for 3 more pods"),
    ],
)
def test_a_reason_has_the_amounts_of_now(reason: str, now: str) -> None:
    needs = [need("cpu", 25_000, 0), need("memory", 3 * GIBIBYTE, GIBIBYTE), need("pods", 2, 5)]
    assert update_lack(reason, needs) == now
