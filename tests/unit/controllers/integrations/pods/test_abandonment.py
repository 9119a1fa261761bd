"""When a pod group that nobody replaces gives its quota back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from muster.api.core import Pod
from muster.api.kueue import Workload
from muster.controllers.integrations.pods.abandonment import give_back_quota, gives_back_at
from muster.controllers.integrations.pods.groups import membership_of

KUEUE = "kueue.x-k8s.io"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIMEOUT = timedelta(minutes=5)


def pod(name: str, phase: str, *, ended: int = 0, node: str = "n", **annotations: str) -> Pod:
    """ended: how many seconds ago."""
    marks = {"role-hash": "r", "pod-group-name": "g", "pod-group-total-count": "2"} | annotations
    condition = {"type": "ContainersReady", "status": "False", "lastTransitionTime": NOW - timedelta(seconds=ended)}
    document = {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": NOW - timedelta(hours=1),
            "annotations": {f"{KUEUE}/{key.replace('_', '-')}": text for key, text in marks.items()},
            "finalizers": [f"{KUEUE}/managed"],
        },
        "spec": {"nodeName": node, "containers": [{"name": "c"}]},
        "status": {"phase": phase, "conditions": [condition]},
    }
    return msgspec.convert(document, Pod)


def workload(*conditions: str, waiting: int = 60) -> Workload:
    """waiting: for so many seconds, pods have needed replacement."""
    since = NOW - timedelta(seconds=waiting)
    told = [
        {"type": type, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": since}
        for type in ("QuotaReserved", *conditions)
    ]
    document = {
        "metadata": {"name": "g"},
        "spec": {"podSets": [{"name": "r", "count": 2}]},
        "status": {"conditions": told},
    }
    return msgspec.convert(document, Workload)


LACKING = workload("WaitingForReplacementPods")


@pytest.mark.parametrize(
    ("pods", "owned", "seconds"),
    [
        pytest.param([pod("a", "Failed", ended=60), pod("b", "Failed", ended=60)], LACKING, 240, id="all failed"),
        pytest.param([pod("a", "Failed", ended=60), pod("b", "Failed", ended=10)], LACKING, 290, id="the last counts"),
        pytest.param([pod("a", "Failed", ended=60), pod("b", "Succeeded", ended=90)], LACKING, 240, id="one succeeded"),
        pytest.param([pod("a", "Failed"), pod("b", "Running")], LACKING, None, id="one runs"),
        pytest.param([pod("a", "Failed"), pod("b", "Pending", node="")], LACKING, None, id="one was replaced"),
        pytest.param([pod("a", "Failed"), pod("b", "Failed")], workload(), None, id="none is missing"),
        pytest.param(
            [pod("a", "Failed"), pod("b", "Failed")],
            workload("WaitingForReplacementPods", "Evicted"),
            None,
            id="evicted already",
        ),
        pytest.param(
            [pod(name, "Failed", pod_group_serving="true") for name in "ab"], LACKING, None, id="it serves for ever"
        ),
    ],
)
def test_when_it_gives_back(pods: list[Any], owned: Workload, seconds: int | None) -> None:
    group = membership_of("g", pods, owned, NOW).group
    expected = NOW + timedelta(seconds=seconds) if seconds is not None else None
    assert gives_back_at(group, owned.status, TIMEOUT) == expected
    assert gives_back_at(group, owned.status, timedelta()) is None


@pytest.mark.parametrize(
    ("number", "said"), [(1, "1 pod that ended was not replaced"), (2, "2 pods that ended were not replaced")]
)
def test_the_workload_says_why(number: int, said: str) -> None:
    evicted = give_back_quota(LACKING.status, number, TIMEOUT, NOW).conditions[-1]
    message = f"No pod of the group runs, and {said} within 300s"
    assert (evicted.type, evicted.reason, evicted.message) == ("Evicted", "PodsReadyTimeout", message)
