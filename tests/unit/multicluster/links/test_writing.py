"""What is written of a cluster that can be used, or cannot."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest
from tests.unit.multicluster.scripts import answer, asked, refusal

from muster.api.kueue import MULTI_KUEUE_CLUSTER, MultiKueueCluster
from muster.multicluster.links.writing import write_active
from muster.queueing.pending.activity import Activity
from muster.runtime.transport import Response

NOW = datetime(2026, 1, 1, tzinfo=UTC)
USABLE = Activity(True, "Active", "Connected")


def cluster(**condition: str) -> MultiKueueCluster:
    conditions = [{"type": "Active", "status": "True", "reason": "Active", "message": "Connected", **condition}]
    document = {
        "metadata": {"name": "w", "resourceVersion": "1", "generation": 7},
        "spec": {"clusterSource": {}},
        "status": {"conditions": conditions if condition else []},
    }
    return msgspec.convert(document, MultiKueueCluster)


@pytest.mark.parametrize(
    ("before", "script", "requests"),
    [
        pytest.param(cluster(), [answer()], ["PATCH status"], id="nothing was said yet"),
        pytest.param(cluster(message="Connected"), [], [], id="it has been said"),
        pytest.param(cluster(status="False", reason="Lost"), [answer()], ["PATCH status"], id="something else was"),
        pytest.param(cluster(), [refusal(404, "NotFound", name="w")], ["PATCH status"], id="it has gone"),
    ],
)
def test_what_is_new_is_written(before: MultiKueueCluster, script: list[Response], requests: list[str]) -> None:
    _, lines, bodies = asyncio.run(
        asked(lambda client: write_active(client, MULTI_KUEUE_CLUSTER, before, USABLE, NOW), *script)
    )
    assert lines == requests
    for body in bodies:
        (said,) = body["status"]["conditions"]
        assert (said["status"], said["reason"], said["message"]) == ("True", "Active", "Connected")
        assert said["observedGeneration"] == 7
