"""Writers that undo each other: what is seen of it, and how long one waits."""

from typing import Any

import pytest

from muster.runtime.control.rivals import (
    ANOTHER,
    FAR_APART_SECONDS,
    FIRST_LOOK,
    LONGEST_SECONDS,
    NEXT_LOOK,
    NOTICED,
    FieldChange,
    Quarrel,
    WriteRecord,
    count_write,
    find_changes,
    judge_write,
    meet_object,
)


def entry(manager: str, fields: dict[str, Any], time: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": fields}


def managed(document: dict[str, Any], *entries: dict[str, Any]) -> dict[str, Any]:
    return {**document, "metadata": {**document.get("metadata", {}), "managedFields": list(entries)}}


SUSPEND: dict[str, Any] = {"f:spec": {"f:suspend": {}}}
READY: dict[str, Any] = {"f:status": {"f:conditions": {".": {}, 'k:{"type":"Ready"}': {".": {}, "f:status": {}}}}}


def conditions(**status: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": type_, "status": value} for type_, value in status.items()]}}


def of(uid: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"uid": uid, **fields}}


@pytest.mark.parametrize(
    ("after", "before", "found"),
    [
        ({"spec": {"suspend": True}}, managed({"spec": {"suspend": False}}, entry("jobset", SUSPEND)),
         [("spec.suspend", True, False, "jobset")]),
        ({"spec": {"suspend": True}}, managed({"spec": {"suspend": True}}, entry("jobset", SUSPEND)), []),
        ({"spec": {"suspend": True}}, managed({"spec": {"suspend": False}}, entry("muster", SUSPEND)),
         [("spec.suspend", True, False, "")]),
        ({"spec": {"suspend": True}}, managed({"spec": {"suspend": False}}), [("spec.suspend", True, False, "")]),
        ({"spec": {"suspend": True}},
         managed({"spec": {}}, entry("a", {"f:spec": {"f:x": {}}}), entry("b", {}, "2026-01-02T00:00:00Z")),
         [("spec.suspend", True, None, "b")]),
        ({"metadata": {"labels": {}}},
         managed({"metadata": {"labels": {"a": "1"}}}, entry("x", {"f:metadata": {"f:labels": {"f:a": {}}}})),
         [("metadata.labels.a", None, "1", "x")]),
        ({"metadata": {"resourceVersion": "1", "generation": 1}},
         managed({"metadata": {"resourceVersion": "2"}}, entry("x", {})), []),
        (conditions(Ready="True", Other="True"),
         managed(conditions(Other="True", Ready="False"), entry("x", READY), entry("muster", {})),
         [("status.conditions[type=Ready].status", "True", "False", "x")]),
        (conditions(Other="True"),
         managed(conditions(Other="True", Ready="False"), entry("x", READY), entry("muster", {})),
         [("status.conditions[type=Ready]", None, {"type": "Ready", "status": "False"}, "x")]),
        ({"spec": {"list": [1, 2]}}, managed({"spec": {"list": [1]}}, entry("x", {"f:spec": {"f:list": {}}})),
         [("spec.list", [1, 2], [1], "x")]),
        ({"spec": {"whole": {"a": 1}}}, managed({"spec": {"whole": {"a": 2}}}, entry("x", {"f:spec": {"f:whole": {}}})),
         [("spec.whole.a", 1, 2, "x")]),
        ({"spec": {"none": []}}, managed({"spec": {}, "status": {}}, entry("x", {})), []),
        ({"spec": [{"name": 1}, 2]}, managed({"spec": "text"}, entry("x", {"f:spec": {}})),
         [("spec", [{"name": 1}, 2], "text", "x")]),
        (of("u"), None, [("", True, [], ANOTHER)]),
        (of("u", ownerReferences=[{"uid": "o"}]), None, [("", True, ["o"], ANOTHER)]),
        (None, managed(of("u"), entry("muster", {}, "2026-01-03T00:00:00Z"), entry("x", {})), [("", None, [], "x")]),
        (None, of("u", ownerReferences=[{"uid": "o"}]), [("", None, ["o"], ANOTHER)]),
        (None, of("u", deletionTimestamp="2026-01-03T00:00:00Z"), []),
        ({"metadata": {}, "status": "Success"}, None, []),
        (None, {"metadata": {}, "items": []}, []),
    ],
    ids=["another's word", "no other word", "our own word", "no managers", "taken away: the latest of the others",
         "we take away", "the server's", "an item of a list", "an item less", "a whole list", "a field of an atom",
         "nothing is not there", "odd forms", "made", "made for another", "deleted: who was first made it",
         "deleted, and made by another", "is going", "an answer", "a list"],
)  # fmt: skip
def test_what_a_write_changes(after, before, found):
    after = after and {"metadata": {}, **after}
    assert [(one.name, one.ours, one.theirs, one.rival) for one in find_changes(before, after, "muster")] == found


SUSPENDED = FieldChange(("spec", "suspend"), True, False, "jobset")


def test_it_waits_longer_each_time_and_no_longer_than_the_longest():
    record, now, waits = WriteRecord(), 0.0, []
    for _ in range(NOTICED + 12):
        record = judge_write(record, [SUSPENDED], now)
        (quarrel,) = record.quarrels.values()
        waits.append(quarrel.free_at - now)
        now = quarrel.free_at
    assert waits[:NOTICED] == [0.0] * (NOTICED - 1) + [1.0]
    assert waits[NOTICED : NOTICED + 3] == [2.0, 4.0, 8.0]
    assert max(waits) == waits[-1] == LONGEST_SECONDS


LABEL = FieldChange(("metadata", "labels", "a"), "b", "c", "jobset")


@pytest.mark.parametrize(
    ("found", "seconds", "held"),
    [
        ([SUSPENDED], 0.5, True),
        ([SUSPENDED], 1.0, False),
        ([FieldChange(SUSPENDED.path, False, True, "jobset")], 0.5, False),
        ([LABEL], 0.5, False),
        ([LABEL, SUSPENDED], 0.5, True),
        ([], 0.5, False),
    ],
    ids=["again", "in time", "another word", "another field", "among others", "it is so already"],
)
def test_what_is_held_back(found, seconds, held):
    record = WriteRecord()
    for _ in range(NOTICED):
        record = judge_write(record, [SUSPENDED], 0.0)
    assert record.waits(seconds) == (seconds < 1.0)
    assert (record.held_by(found, seconds) is not None) == held


def made(*owners: str) -> FieldChange:
    return FieldChange((), True, list(owners), ANOTHER)


def gone(*owners: str) -> FieldChange:
    return FieldChange((), None, list(owners), "x")


@pytest.mark.parametrize(
    ("first", "then", "uid", "seconds", "times"),
    [
        (SUSPENDED, SUSPENDED, "u", 0.0, 2),
        (SUSPENDED, SUSPENDED, "other", 0.0, 1),
        (SUSPENDED, FieldChange(SUSPENDED.path, "changed", False, "jobset"), "u", 0.0, 1),
        (SUSPENDED, SUSPENDED, "u", FAR_APART_SECONDS + 1, 1),
        (made("o"), made("o"), "other", 0.0, 2),
        (made("o"), made("p"), "other", 0.0, 1),
        (made(), gone(), "other", 0.0, 1),
        (gone("o"), gone("o"), "other", 0.0, 2),
        (gone("o"), gone("p"), "other", 0.0, 1),
    ],
    ids=["again", "another object of that name", "we have changed our mind", "long ago", "made again",
         "made for another", "we delete what we made", "deleted again", "what has other owners"],
)  # fmt: skip
def test_what_is_a_quarrel(first, then, uid, seconds, times):
    record = judge_write(meet_object(WriteRecord(), "u"), [first], 0.0)
    (quarrel,) = judge_write(meet_object(record, uid), [then], seconds).quarrels.values()
    assert quarrel.times == times


def test_objects_are_looked_at_now_and_then_and_each_time_while_there_is_a_quarrel():
    record, looks = WriteRecord(), []
    for number in range(1, 200):
        record = count_write(record, 1.0)
        if record.are_suspicious(of_fields=True):
            looks.append(number)
            record = judge_write(record, (), 1.0)
    assert looks == [FIRST_LOOK, FIRST_LOOK + NEXT_LOOK, FIRST_LOOK + 2 * NEXT_LOOK]
    assert not record.are_suspicious(of_fields=True)
    assert record.are_suspicious(of_fields=False)
    record = count_write(judge_write(record, [SUSPENDED], 1.0), 1.0)
    assert record.are_suspicious(of_fields=True)
    assert count_write(record, 1e6) == WriteRecord(writes=1, last=1e6)


def test_what_we_take_back_ourselves_is_no_quarrel():
    record = WriteRecord()
    for _ in range(2 * NOTICED):
        record = judge_write(record, [FieldChange(("status", "active"), 1, None, "x")], 0.0)
        record = judge_write(record, [FieldChange(("status", "active"), None, 1, "")], 0.0)
        record = judge_write(record, [FieldChange(("status", "admission", "clusterQueue"), "cq", None, "x")], 0.0)
        record = judge_write(record, [FieldChange(("status", "admission"), None, {"clusterQueue": "cq"}, "")], 0.0)
    assert record.quarrels == {}


def test_a_quarrel_of_months_waits_as_long_as_one_of_hours():
    assert {Quarrel(SUSPENDED, times, 0.0).free_at for times in (NOTICED + 9, 1_100, 10**6)} == {LONGEST_SECONDS}
