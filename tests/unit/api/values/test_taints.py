"""For how long a pod bears a node's taints."""

import pytest

from muster.api.core import Taint, Toleration
from muster.api.values.taints import compute_tolerated_seconds

LOST = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")
REPAIR = Taint(key="repair", value="disk", effect="NoExecute")
CLOSED = Taint(key="closed", effect="NoSchedule")


def bears(key: str, seconds: int | None = None, effect: str = "NoExecute", value: str = "") -> Toleration:
    operator = "Equal" if value else "Exists"
    return Toleration(key=key, operator=operator, value=value, effect=effect, toleration_seconds=seconds)


@pytest.mark.parametrize(
    ("taints", "tolerations", "seconds"),
    [
        ((), (), None),
        ((CLOSED,), (), None),
        ((LOST,), (), 0.0),
        ((LOST,), (bears(LOST.key, 300),), 300.0),
        ((LOST,), (bears(LOST.key),), None),
        ((LOST,), (bears(LOST.key, -5),), 0.0),
        ((LOST,), (bears("", 7, effect=""),), 7.0),
        ((LOST,), (bears(LOST.key, 9), bears(LOST.key, 5)), 9.0),
        ((LOST,), (bears(LOST.key, 9, effect="NoSchedule"),), 0.0),
        ((LOST, REPAIR), (bears(LOST.key, 300), bears("repair")), 300.0),
        ((LOST, REPAIR), (bears(LOST.key, 300), bears("repair", 20)), 20.0),
        ((LOST, REPAIR), (bears(LOST.key),), 0.0),
        ((REPAIR,), (bears("repair", 20, value="memory"),), 0.0),
    ],
)
def test_the_shortest_of_what_counts(
    taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], seconds: float | None
) -> None:
    assert compute_tolerated_seconds(taints, tolerations) == seconds
