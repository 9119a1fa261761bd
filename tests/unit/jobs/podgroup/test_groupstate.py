"""How a group does: rows 3.13, 3.14 and 3.22 of KEP-34's checklist, and pitfalls 14 and 15."""

from typing import Any

import msgspec
import pytest

from muster.api.core import Pod
from muster.api.podgroups import kep
from muster.jobs.podgroup.census import Census, count
from muster.jobs.podgroup.groupstate import Stage, find_state
from muster.jobs.podgroup.record import read


def pod(phase: str = "Pending", node: str = "", **more: Any) -> Pod:
    meta = {"namespace": "ns"} | more.pop("metadata", {})
    status = {"phase": phase} | more.pop("status", {})
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": node, **more}, "status": status}, Pod)


TOLD = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}]}
OWNER = {"apiVersion": "v1", "kind": "X", "name": "o", "uid": "1"}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([], Census(), id="none"),
        pytest.param([pod()], Census(pending=1), id="pending"),
        pytest.param([pod(node="n")], Census(admitted=1), id="3.22-admitted"),
        pytest.param([pod("Running", "n")], Census(admitted=1, running=1), id="3.22-running"),
        pytest.param(
            [pod("Succeeded", "n"), pod("Failed", "n")], Census(succeeded=1, failed=1), id="3.22-succeeded and failed"
        ),
        pytest.param([pod(schedulingGates=[{"name": "x"}])], Census(pending=1), id="15-gated"),
        pytest.param(
            [pod("Running", "n", metadata={"deletionTimestamp": "2026-01-02T03:04:05Z"})], Census(), id="15-terminating"
        ),
        pytest.param([pod(status=TOLD)], Census(pending=1, told="no room"), id="told"),
        pytest.param([pod(metadata={"ownerReferences": [OWNER]})], Census(pending=1, owners=("ns/o",)), id="owned"),
    ],
)
def test_counts(pods: list[Pod], expected: Census) -> None:
    assert count(pods) == expected


@pytest.mark.parametrize(
    ("minimum", "census", "stage", "reason"),
    [
        pytest.param(3, Census(), Stage.EMPTY, "", id="nothing is there"),
        pytest.param(3, Census(failed=3), Stage.EMPTY, "", id="nothing is left"),
        pytest.param(3, Census(pending=2), Stage.WAITING, "NotEnoughTasks", id="3.13"),
        pytest.param(3, Census(pending=3), Stage.WAITING, "", id="about to be placed"),
        pytest.param(3, Census(pending=3, told="x"), Stage.WAITING, "NotEnoughResources", id="no room"),
        pytest.param(3, Census(admitted=3), Stage.READY, "", id="all have nodes"),
        pytest.param(3, Census(admitted=3, running=3, pending=2, told="x"), Stage.READY, "", id="surplus waits"),
        pytest.param(3, Census(admitted=2, running=2, succeeded=1), Stage.READY, "", id="14-one is done"),
        pytest.param(3, Census(admitted=2, running=2, failed=1), Stage.BROKEN, "NotEnoughTasks", id="3.14-one failed"),
        pytest.param(3, Census(admitted=2, running=2, pending=1), Stage.WAITING, "", id="3.14-its replacement waits"),
        pytest.param(3, Census(admitted=2, failed=1), Stage.WAITING, "NotEnoughTasks", id="3.14-none runs yet"),
        pytest.param(3, Census(succeeded=3), Stage.DONE, "", id="all succeeded"),
        pytest.param(0, Census(pending=1), Stage.WAITING, "", id="no minimum"),
        pytest.param(0, Census(admitted=1), Stage.READY, "", id="no minimum, placed"),
    ],
)
def test_stages(minimum: int, census: Census, stage: Stage, reason: str) -> None:
    group = read(kep.POD_GROUP.typed({"metadata": {"name": "g"}, "spec": {"minMembers": minimum}}))
    found = find_state(group, census)
    assert (found.stage, found.reason) == (stage, reason)
    assert bool(found.reason) == bool(found.message)


def test_3_14_says_the_numbers() -> None:
    group = read(kep.POD_GROUP.typed({"metadata": {"name": "g"}, "spec": {"minMembers": 5}}))
    found = find_state(group, Census(pending=1, admitted=2, running=1, succeeded=1))
    assert found.message == "1 running, 2 pending and 1 succeeded pods are fewer than the 5 that must run"
