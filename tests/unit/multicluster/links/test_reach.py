"""How often a worker is asked whether it answers, and what a cluster without a way to it says."""

import asyncio

import pytest

from muster.api.core import NAMESPACE
from muster.multicluster.links.reach import make_unreachable, ping_seconds
from muster.runtime.transport import TransportError


@pytest.mark.parametrize(
    ("lost_after", "every"),
    [
        pytest.param(0, 2, id="no oftener than this"),
        pytest.param(8, 2, id="four times within"),
        pytest.param(60, 15, id="four times within a minute"),
        pytest.param(359.6, 89.9, id="just before a silent stream says it"),
        pytest.param(360, None, id="a silent stream says it in time"),
        pytest.param(900, None, id="as is usual"),
    ],
)
def test_a_worker_is_asked_as_often_as_its_loss_has_to_be_known(lost_after: float, every: float | None) -> None:
    assert ping_seconds(lost_after) == (every if every is None else pytest.approx(every))


def test_every_request_to_a_cluster_that_cannot_be_reached_says_why() -> None:
    client = make_unreachable("no kubeconfig")
    with pytest.raises(TransportError, match="no kubeconfig"):
        asyncio.run(client.get(NAMESPACE, "n"))
