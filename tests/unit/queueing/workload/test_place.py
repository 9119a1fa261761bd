"""Tests of the place of a Workload by its state."""

from typing import Any

import msgspec
import pytest
from tests.unit.queueing.lives import NOW

from muster.api.kueue import Workload
from muster.queueing.moments import NEVER
from muster.queueing.workload.place import Holds, Place, Waits, place_of

ADMISSION = {"clusterQueue": "cq", "podSetAssignments": []}


def condition(type_: str, status: str = "True", reason: str = "") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason}


RESERVED = condition("QuotaReserved")


@pytest.mark.parametrize(
    ("conditions", "more", "place"),
    [
        pytest.param([], {}, Waits(), id="new"),
        pytest.param([], {"active": False}, None, id="not active"),
        pytest.param([condition("QuotaReserved", "False", "OnHold")], {}, None, id="on hold"),
        pytest.param([condition("QuotaReserved", "False", "Pending")], {}, Waits(), id="did not fit"),
        pytest.param([], {"gate": "example.com/gate"}, None, id="gated"),
        pytest.param([], {"gate": ""}, Waits(), id="gated by nothing"),
        pytest.param([condition("WaitingForReplacementPods")], {}, None, id="waits for replacement pods"),
        pytest.param([RESERVED], {"admission": True}, Holds("cq"), id="reserved"),
        pytest.param([RESERVED], {}, Waits(), id="reserved, but nothing is"),
        pytest.param([], {"admission": True}, Waits(), id="nothing says that it is reserved"),
        pytest.param([RESERVED], {"admission": True, "active": False}, Holds("cq"), id="to be evicted"),
        pytest.param([RESERVED], {"admission": True, "deleted": True}, Holds("cq"), id="goes, and holds"),
        pytest.param([], {"deleted": True}, None, id="goes"),
        pytest.param([RESERVED, condition("Finished")], {"admission": True}, None, id="finished"),
        pytest.param([condition("Requeued", "False")], {}, Waits(NEVER, NEVER), id="not requeued"),
        pytest.param([condition("Requeued", "False")], {"at": True}, Waits(NEVER, NOW), id="requeued soon"),
        pytest.param(
            [condition("Requeued", "False", "ClusterQueueStopped")], {}, Waits(), id="evicted by its stopped queue"
        ),
        pytest.param(
            [condition("Requeued", "False", "LocalQueueStopped")], {}, Waits(), id="evicted by its stopped LocalQueue"
        ),
        pytest.param([condition("Requeued")], {"at": True}, Waits(NOW, NOW), id="requeued"),
    ],
)
def test_where_a_workload_belongs(conditions: list[dict[str, str]], more: dict[str, Any], place: Place) -> None:
    metadata: dict[str, Any] = {"name": "w", "annotations": {"kueue.x-k8s.io/admission-gated-by": more.get("gate", "")}}
    if "deleted" in more:
        metadata["deletionTimestamp"] = NOW
    status: dict[str, Any] = {"conditions": conditions}
    if "admission" in more:
        status["admission"] = ADMISSION
    if "at" in more:
        status["requeueState"] = {"count": 1, "requeueAt": NOW}
    document = {"metadata": metadata, "spec": {"active": more.get("active", True)}, "status": status}
    assert place_of(msgspec.convert(document, Workload)) == place
