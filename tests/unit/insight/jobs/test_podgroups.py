"""PodGroups as people see them: row 3.31 of KEP-34's checklist."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api.core import Event, Pod
from muster.api.podgroups import kep, volcano
from muster.insight.jobs.podgroups import make_details, make_row, view_groups
from muster.jobs.podgroup.reference import By

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
KEP = "scheduling.k8s.io/group-name"
WAYS = tuple(By)


def group(kind: Any = kep.POD_GROUP, name: str = "g", status: Any = None, **spec: Any) -> Any:
    meta = {"namespace": "ns", "name": name, "uid": "u", "creationTimestamp": "2026-01-02T11:55:00Z"}
    return kind.typed({"metadata": meta, "spec": spec, "status": status or {}})


def pod(name: str, phase: str = "Pending", *, node: str = "", of: str = "g", told: str = "") -> Pod:
    conditions = (
        [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": told}] if told else []
    )
    return msgspec.convert(
        {
            "metadata": {"namespace": "ns", "name": name, "annotations": {KEP: of}},
            "spec": {"nodeName": node},
            "status": {"phase": phase, "conditions": conditions},
        },
        Pod,
    )


GIVEN_UP = {
    "type": "Failed", "status": "True", "reason": "BelowMinMembers", "message": "too few are left",
    "lastTransitionTime": "2026-01-02T11:59:00Z",
}  # fmt: skip
RUNNING = [pod("a", "Running", node="n"), pod("b", "Running", node="n"), pod("c", "Failed", node="n")]


@pytest.mark.parametrize(
    ("groups", "pods", "rows"),
    [
        ([], [], []),
        ([group(minMembers=2)], [], [("g", "Empty", 2, 0, 0, "")]),
        ([group(minMembers=2)], [pod("a")], [("g", "Waiting", 2, 1, 0, "1 of 2 pods exist")]),
        ([group(minMembers=1)], [pod("a", told="no room")], [("g", "Waiting", 1, 1, 0, "no room")]),
        ([group(minMembers=2)], RUNNING, [("g", "Ready", 2, 2, 2, "")]),
        (
            [group(minMembers=3)],
            RUNNING,
            [
                (
                    "g", "Broken", 3, 2, 2,
                    "2 running, 0 pending and 0 succeeded pods are fewer than the 3 that must run",
                )
            ],
        ),
        (
            [group(minMembers=3, status={"conditions": [GIVEN_UP]})],
            [pod("c", "Failed", node="n")],
            [("g", "Failed", 3, 0, 0, "too few are left")],
        ),
        ([], [pod("a", of="none")], [("none", "Missing", None, 1, 0, "1 pods name it, and it is not there")]),
        ([], [pod("a", "Succeeded", of="past")], []),
        (
            [group(minMembers=1), group(volcano.POD_GROUP, minMember=2)],
            RUNNING,
            [
                ("g", "Ready", 1, 2, 2, ""),
                (
                    "g", "Hidden", 2, 0, 0,
                    "its pods are those of the PodGroup of the same name of incubator.scheduling.k8s.io",
                ),
            ],
        ),
    ],
)  # fmt: skip
def test_rows(groups: list[Any], pods: list[Pod], rows: list[tuple[Any, ...]]) -> None:
    found = [make_row(view, NOW) for view in view_groups(groups, pods, WAYS)]
    assert [
        tuple(one[name] for name in ("name", "state", "minimum", "pods", "bound", "reason")) for one in found
    ] == rows


def test_all_about_one() -> None:
    policy = {"onBelowMin": "Restart", "maxRestarts": 3, "backoffSeconds": 10}
    (view,) = view_groups([group(minMembers=2, totalResources={"cpu": "4"}, policy=policy)], RUNNING, WAYS)
    event = msgspec.convert({"reason": "R", "message": "m", "lastTimestamp": "2026-01-02T11:59:00Z"}, Event)
    found = make_details(view, [event], NOW)
    assert (found["kind"], found["age"], found["failed"]) == ("incubator.scheduling.k8s.io/v1alpha1", "5m", 1)
    assert found["asks"] == {"quota set aside": "cpu 4", "below minimum": "Restart, at most 3 restarts, after 10s"}
    assert [(one["name"], one["phase"], one["node"]) for one in found["members"]] == [
        ("a", "Running", "n"), ("b", "Running", "n"), ("c", "Failed", "n"),
    ]  # fmt: skip
    assert found["events"] == [{"age": "60s", "reason": "R", "message": "m"}]


def test_tasks_and_queue() -> None:
    (view,) = view_groups([group(volcano.POD_GROUP, minMember=3, minTaskMember={"ps": 1, "worker": 2})], [], WAYS)
    assert make_details(view, (), NOW)["asks"] == {"tasks": "ps: 1, worker: 2", "queue": "default"}
