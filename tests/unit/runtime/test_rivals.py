"""Writers that undo each other: what is seen of it, and how long one waits."""

from typing import Any

import pytest

from muster.runtime.rivals import (
    FAR_APART_SECONDS,
    FIRST_LOOK,
    LONGEST_SECONDS,
    NEXT_LOOK,
    NOTICED,
    Dealings,
    Quarrel,
    Undone,
    counted,
    judged,
    undone,
)


def entry(manager: str, fields: dict[str, Any], time: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": fields}


def managed(document: dict[str, Any], *entries: dict[str, Any]) -> dict[str, Any]:
    return {**document, "metadata": {**document.get("metadata", {}), "managedFields": list(entries)}}


SUSPEND: dict[str, Any] = {"f:spec": {"f:suspend": {}}}
READY: dict[str, Any] = {"f:status": {"f:conditions": {".": {}, 'k:{"type":"Ready"}': {".": {}, "f:status": {}}}}}


def conditions(**status: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": type_, "status": value} for type_, value in status.items()]}}


@pytest.mark.parametrize(
    ("patch", "current", "found"),
    [
        ({"spec": {"suspend": True}}, managed({"spec": {"suspend": False}}, entry("jobset", SUSPEND)),
         [("spec.suspend", True, False, "jobset")]),
        ({"spec": {"suspend": True}}, managed({"spec": {"suspend": True}}, entry("jobset", SUSPEND)), []),
        ({"spec": {"suspend": True}}, managed({"spec": {"suspend": False}}, entry("muster", SUSPEND)), []),
        ({"spec": {"suspend": True}}, {"spec": {"suspend": False}}, []),
        ({"spec": {"suspend": True}},
         managed({"spec": {}}, entry("a", {"f:spec": {"f:x": {}}}), entry("b", {}, "2026-01-02T00:00:00Z")),
         [("spec.suspend", True, None, "b")]),
        ({"metadata": {"labels": {"a": None}}},
         managed({"metadata": {"labels": {"a": "1"}}}, entry("x", {"f:metadata": {"f:labels": {"f:a": {}}}})),
         [("metadata.labels.a", None, "1", "x")]),
        ({"metadata": {"resourceVersion": "1", "uid": "u"}}, managed({"metadata": {"resourceVersion": "2"}},
                                                                     entry("x", {})), []),
        (conditions(Ready="True", Other="True"),
         managed(conditions(Other="True", Ready="False"), entry("x", READY), entry("muster", {})),
         [("status.conditions[type=Ready].status", "True", "False", "x")]),
        ({"spec": {"list": [1, 2]}}, managed({"spec": {"list": [1]}}, entry("x", {"f:spec": {"f:list": {}}})),
         [("spec.list", [1, 2], [1], "x")]),
        ({"spec": {"whole": {"a": 1}}}, managed({"spec": {"whole": {"a": 2}}}, entry("x", {"f:spec": {"f:whole": {}}})),
         [("spec.whole.a", 1, 2, "x")]),
        ({"spec": {"none": []}}, managed({"spec": {}}, entry("x", {})), []),
        ({"spec": [{"name": 1}, 2]}, managed({"spec": "text"}, entry("x", {"f:spec": {}})),
         [("spec", [{"name": 1}, 2], "text", "x")]),
    ],
    ids=["another's word", "no other word", "our own word", "no managers", "taken away: the latest of the others",
         "set again what we take away", "preconditions", "an item of a list", "a whole list", "a field of an atom",
         "nothing is not there", "odd forms"],
)  # fmt: skip
def test_what_a_write_finds_set_otherwise(patch, current, found):
    assert [(one.name, one.ours, one.theirs, one.rival) for one in undone(patch, current, "muster")] == found


THEM = [Undone(("spec", "suspend"), True, False, "jobset")]
PATCH = {"spec": {"suspend": True}}


def test_it_waits_longer_each_time_and_no_longer_than_the_longest():
    dealings, now, waits = Dealings(), 0.0, []
    for _ in range(NOTICED + 12):
        dealings = judged(dealings, "u", PATCH, THEM, now)
        (quarrel,) = dealings.quarrels.values()
        waits.append(quarrel.free_at - now)
        now = quarrel.free_at
    assert waits[:NOTICED] == [0.0] * (NOTICED - 1) + [1.0]
    assert waits[NOTICED : NOTICED + 3] == [2.0, 4.0, 8.0]
    assert max(waits) == waits[-1] == LONGEST_SECONDS


@pytest.mark.parametrize(
    ("patch", "seconds", "held"),
    [
        (PATCH, 0.5, True),
        (PATCH, 1.0, False),
        ({"spec": {"suspend": False}}, 0.5, False),
        ({"metadata": {"labels": {"a": "b"}}}, 0.5, False),
        ({"spec": {"suspend": True, "more": 1}}, 0.5, True),
    ],
    ids=["again", "in time", "another word", "another field", "among others"],
)
def test_what_is_held_back(patch, seconds, held):
    dealings = Dealings()
    for _ in range(NOTICED):
        dealings = judged(dealings, "u", PATCH, THEM, 0.0)
    assert (dealings.held_by(patch, seconds) is not None) == held


@pytest.mark.parametrize(
    ("uid", "ours", "later"),
    [("other", True, 0.0), ("u", "another word", 0.0), ("u", True, FAR_APART_SECONDS + 1)],
    ids=["another object of that name", "we have changed our mind", "long ago"],
)
def test_what_is_no_quarrel(uid, ours, later):
    dealings = Dealings()
    for _ in range(NOTICED - 1):
        dealings = judged(dealings, "u", PATCH, THEM, 0.0)
    now = Undone(THEM[0].path, ours, False, "jobset")
    (quarrel,) = judged(dealings, uid, PATCH, [now], later).quarrels.values()
    assert quarrel.times == 1


def test_objects_are_looked_at_now_and_then_and_each_time_while_there_is_a_quarrel():
    dealings, looks = Dealings(), []
    for number in range(1, 200):
        dealings = counted(dealings, 1.0)
        if dealings.is_suspicious:
            looks.append(number)
            dealings = judged(dealings, "u", PATCH, (), 1.0)
    assert looks == [FIRST_LOOK, FIRST_LOOK + NEXT_LOOK, FIRST_LOOK + 2 * NEXT_LOOK]
    dealings = counted(judged(dealings, "u", PATCH, THEM, 1.0), 1.0)
    assert dealings.is_suspicious
    assert counted(dealings, 1e6) == Dealings(writes=1, last=1e6)


def test_what_we_take_back_ourselves_is_no_quarrel():
    dealings, back = Dealings(), {"status": {"active": None}}
    ours = Undone(("status", "active"), 1, None, "x")
    for _ in range(2 * NOTICED):
        dealings = judged(dealings, "u", {"status": {"active": 1}}, [ours], 0.0)
        dealings = judged(dealings, "u", back, (), 0.0)
    assert dealings.quarrels == {}


def test_a_quarrel_of_months_waits_as_long_as_one_of_hours():
    about = Undone(("spec", "suspend"), ours=True, theirs=False, rival="jobset")
    assert {Quarrel(about, times, 0.0).free_at for times in (NOTICED + 9, 1_100, 10**6)} == {LONGEST_SECONDS}
