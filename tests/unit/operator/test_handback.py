"""Who has said what of a Workload, before and after it is given back to Kueue."""

from typing import Any

from muster.operator.handback import Entry, hand_back_fields


def entry(manager: str, operation: str, status: Any, subresource: str = "status") -> Entry:
    fields = {"f:status": status}
    version = "kueue.x-k8s.io/v1beta2"
    return {
        "manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1",
        "fieldsV1": fields, "subresource": subresource,
    }  # fmt: skip


ADMISSION: dict[str, Any] = {"f:admission": {"f:clusterQueue": {}}}
CONDITION: dict[str, Any] = {"f:conditions": {'k:{"type":"Admitted"}': {"f:status": {}}}}


def test_what_muster_admitted_becomes_what_kueue_has_said() -> None:
    assert hand_back_fields([entry("muster", "Update", ADMISSION)]) == [entry("kueue-admission", "Apply", ADMISSION)]


def test_what_kueue_forces_anyhow_stays() -> None:
    found = hand_back_fields([entry("muster", "Update", ADMISSION | CONDITION)])
    assert found == [entry("kueue-admission", "Apply", ADMISSION), entry("muster", "Update", CONDITION)]


def test_it_comes_on_top_of_what_kueue_has_said_before() -> None:
    theirs = entry("kueue-admission", "Apply", CONDITION | {"f:admission": {"f:podSetAssignments": {}}})
    (found,) = hand_back_fields([theirs, entry("muster", "Update", ADMISSION)]) or []
    both: dict[str, Any] = {"f:podSetAssignments": {}, "f:clusterQueue": {}}
    assert found == entry("kueue-admission", "Apply", CONDITION | {"f:admission": both})


def test_what_others_have_said_is_left() -> None:
    others = [
        entry("kueue-admission", "Apply", ADMISSION), entry("kubectl", "Update", ADMISSION),
        entry("muster", "Update", CONDITION), entry("muster", "Update", {}, subresource=""),
    ]  # fmt: skip
    assert hand_back_fields(others) is None
    assert hand_back_fields([]) is None
