"""The status of a PodGroup in the words of its dialect."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api.kinds import Kind
from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano
from muster.jobs.podgroup.census import Census
from muster.jobs.podgroup.groupstate import find_state
from muster.jobs.podgroup.record import KINDS, NATIVE, read
from muster.jobs.podgroup.status import status_of

EARLY, NOW = "2026-01-02T03:04:05Z", datetime(2026, 1, 2, 12, tzinfo=UTC)
LATE = "2026-01-02T12:00:00Z"

TOO_FEW, BROKEN = Census(pending=2), Census(admitted=2, running=2, failed=1)
NO_ROOM, PLACED = Census(pending=3, told="no room"), Census(admitted=3)
RUNNING, DONE = Census(admitted=3, running=3), Census(succeeded=3)

FEW, LOST = "2 of 3 pods exist", "2 running, 0 pending and 0 succeeded pods are fewer than the 3 that must run"


def group(kind: Kind[Any], status: Any = None) -> Any:
    specs = {kep.POD_GROUP: {"minMembers": 3}, NATIVE: {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    meta = {"name": "g", "namespace": "ns", "resourceVersion": "7"}
    return kind.typed({"metadata": meta, "spec": specs.get(kind, {"minMember": 3}), "status": status or {}})


def written(kind: Kind[Any], census: Census, status: Any = None) -> Any:
    obj = group(kind, status)
    return msgspec.json.decode(msgspec.json.encode(status_of(obj, find_state(read(obj), census), NOW)))


def condition(type_: str, status: str, reason: str, message: str, since: str = LATE, **more: str) -> dict[str, str]:
    return {
        "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since, **more,
    }  # fmt: skip


UNSCHEDULABLE = condition("Unschedulable", "True", "NotEnoughTasks", FEW, EARLY)


@pytest.mark.parametrize(
    ("census", "old", "expected"),
    [
        pytest.param(Census(), {}, {}, id="nothing to say"),
        pytest.param(RUNNING, {}, {"admitted": 3, "running": 3}, id="3.22-counters"),
        pytest.param(DONE, {"admitted": 3, "running": 3}, {"succeeded": 3}, id="3.22-they fall"),
        pytest.param(
            TOO_FEW, {}, {"conditions": [condition("Unschedulable", "True", "NotEnoughTasks", FEW)]}, id="3.13"
        ),
        pytest.param(TOO_FEW, {"conditions": [UNSCHEDULABLE]}, {"conditions": [UNSCHEDULABLE]}, id="3.21-as it was"),
        pytest.param(
            BROKEN,
            {"admitted": 3, "running": 3},
            {"admitted": 2, "running": 2, "failed": 1,
             "conditions": [condition("Unschedulable", "True", "NotEnoughTasks", LOST)]},
            id="3.14",
        ),
        pytest.param(
            NO_ROOM,
            {"conditions": [UNSCHEDULABLE]},
            {"conditions": [condition("Unschedulable", "True", "NotEnoughResources", "no room", EARLY)]},
            id="another reason, since the same time",
        ),
        pytest.param(
            PLACED,
            {"conditions": [UNSCHEDULABLE]},
            {"admitted": 3, "conditions": [condition("Unschedulable", "False", "Scheduled", "")]},
            id="over",
        ),
        pytest.param(Census(), {"conditions": [UNSCHEDULABLE]}, {}, id="about nothing any more"),
    ],
)  # fmt: skip
def test_kep(census: Census, old: Any, expected: Any) -> None:
    assert written(kep.POD_GROUP, census, old) == expected


@pytest.mark.parametrize("kind", [kubebatch.POD_GROUP, sigs.POD_GROUP], ids=lambda kind: kind.group)
@pytest.mark.parametrize(
    ("census", "phase", "reason"),
    [
        (Census(), "Pending", ""), (TOO_FEW, "Pending", "NotEnoughTasks"), (NO_ROOM, "Pending", "NotEnoughResources"),
        (PLACED, "Running", ""), (RUNNING, "Running", ""), (BROKEN, "Unknown", "NotEnoughTasks"),
        (DONE, "Running", ""),
    ],
)  # fmt: skip
def test_kube_batch(kind: Kind[Any], census: Census, phase: str, reason: str) -> None:
    found = written(kind, census)
    assert found["phase"] == phase
    assert [one["reason"] for one in found.get("conditions", ())] == ([reason] if reason else [])


def test_older_conditions_name_their_transitions() -> None:
    first = written(volcano.POD_GROUP, TOO_FEW)
    assert first["conditions"] == [
        condition("Unschedulable", "True", "NotEnoughTasks", FEW, transitionID="7"),
    ]
    assert written(volcano.POD_GROUP, TOO_FEW, first) == first


@pytest.mark.parametrize(
    ("census", "old", "phase", "conditions"),
    [
        (Census(), {}, "Inqueue", []),
        (TOO_FEW, {}, "Inqueue", ["Unschedulable=True"]),
        (PLACED, {}, "Running", ["Scheduled=True"]),
        (BROKEN, {}, "Unknown", ["Unschedulable=True"]),
        (DONE, {}, "Completed", []),
        (Census(), {"phase": "Completed"}, "Completed", []),
        (Census(), {"phase": "Running"}, "Inqueue", []),
        (
            NO_ROOM,
            {"conditions": [{"type": "Scheduled", "status": "True"}]},
            "Inqueue",
            ["Scheduled=False", "Unschedulable=True"],
        ),
    ],
)
def test_volcano(census: Census, old: Any, phase: str, conditions: list[str]) -> None:
    found = written(volcano.POD_GROUP, census, old)
    assert found["phase"] == phase
    assert [f"{one['type']}={one['status']}" for one in found.get("conditions", ())] == conditions


@pytest.mark.parametrize(
    ("census", "old", "phase"),
    [
        (Census(), "", "Pending"), (TOO_FEW, "Pending", "Pending"), (NO_ROOM, "Pending", "Scheduling"),
        (PLACED, "Scheduling", "Scheduling"), (RUNNING, "Scheduling", "Running"), (BROKEN, "Running", "Failed"),
        (Census(admitted=1, running=1, failed=1, pending=1), "Running", "Scheduling"), (DONE, "Running", "Finished"),
        (Census(), "Finished", "Finished"), (RUNNING, "Failed", "Failed"),
        (Census(admitted=1, running=1, failed=1, succeeded=1), "Running", "Failed"),
        (Census(admitted=2, running=1, succeeded=1), "Scheduling", "Scheduling"),
        (Census(admitted=2, running=2, succeeded=1), "Scheduling", "Running"),
        (Census(admitted=2, failed=1), "Scheduling", "Scheduling"), (Census(failed=2), "", "Pending"),
    ],
)  # fmt: skip
def test_coscheduling(census: Census, old: str, phase: str) -> None:
    assert written(coscheduling.POD_GROUP, census, {"phase": old})["phase"] == phase


def test_coscheduling_says_since_when_and_for_whom() -> None:
    found = written(coscheduling.POD_GROUP, Census(pending=3, owners=("ns/a", "ns/b")))
    assert (found["scheduleStartTime"], found["occupiedBy"]) == (LATE, "ns/a,ns/b")
    # Pitfall 18: it is the first time, whatever comes later.
    later = written(coscheduling.POD_GROUP, NO_ROOM, found | {"scheduleStartTime": EARLY})
    assert (later["scheduleStartTime"], later["occupiedBy"]) == (EARLY, "ns/a,ns/b")


@pytest.mark.parametrize(
    ("census", "expected"),
    [
        (Census(), []),
        (NO_ROOM, [("False", "Unschedulable", "no room")]),
        (PLACED, [("True", "Scheduled", "")]),
    ],
)
def test_native(census: Census, expected: list[tuple[str, str, str]]) -> None:
    found = written(NATIVE, census)
    conditions = found.get("conditions", [])
    assert [(one["status"], one["reason"], one["message"]) for one in conditions] == expected
    assert {one["type"] for one in conditions} <= {"PodGroupInitiallyScheduled"}
    if census is PLACED:
        assert written(NATIVE, BROKEN, found) == found, "once it is so, it stays so"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.group)
@pytest.mark.parametrize("census", [Census(), TOO_FEW, BROKEN, NO_ROOM, PLACED, RUNNING, DONE])
def test_3_21_what_is_said_is_not_said_again(kind: Kind[Any], census: Census) -> None:
    first = written(kind, census)
    assert written(kind, census, first) == first
