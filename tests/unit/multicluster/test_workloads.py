"""Which changes of a workload may change where it goes."""

from typing import Any

import msgspec
import pytest

from muster.api.kueue import Workload
from muster.multicluster.workloads import has_decision_changed

NOW = "2026-01-02T03:04:05Z"


def workload(version: str = "1", home: str = "", active: bool = True, **conditions: str) -> Workload:
    annotations = {"muster.dev/multikueue-home": home} if home else {}
    document: dict[str, Any] = {
        "metadata": {"name": "w", "namespace": "ns", "resourceVersion": version, "annotations": annotations},
        "spec": {"active": active, "podSets": []},
        "status": {
            "conditions": [
                {"type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": NOW}
                for type_, status in conditions.items()
            ]
        },
    }
    return msgspec.convert(document, Workload)


@pytest.mark.parametrize(
    ("new", "matters"),
    [
        pytest.param(None, True, id="it was deleted"),
        pytest.param(workload("2", QuotaReserved="True"), False, id="nothing"),
        pytest.param(
            workload("2", QuotaReserved="True", Admitted="True", PodsReady="False"), False, id="it is admitted"
        ),
        pytest.param(workload("2", QuotaReserved="False"), True, id="it lost its quota"),
        pytest.param(workload("2", QuotaReserved="True", Finished="True"), True, id="it ended"),
        pytest.param(workload("2", QuotaReserved="True", home="a"), True, id="it got a home"),
        pytest.param(workload("2", QuotaReserved="True", active=False), True, id="it is held"),
    ],
)
def test_which_changes_may_change_a_decision(new: Workload | None, matters: bool) -> None:
    assert has_decision_changed(workload("1", QuotaReserved="True"), new) is matters
    assert has_decision_changed(None, workload())
