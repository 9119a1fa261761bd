"""Bodies of kinds that are CRDs upstream: everything wrong in the part that is written is said, nothing of the rest."""

from typing import Any

import pytest

from muster.api.kueue import CLUSTER_QUEUE, WORKLOAD
from muster.api.kueue.fields import SUBDOMAIN
from muster.cluster.apiserver.schema import DecodeError, compile_structural

MAIN, STATUS = compile_structural(CLUSTER_QUEUE), compile_structural(CLUSTER_QUEUE, status=True)
GOOD: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {"stopPolicy": "Hold"}, "status": {"pendingWorkloads": 1}}

RESOURCES = "spec.resourceGroups[0].coveredResources"


def errors(checked: Any) -> list[str]:
    return [str(error) for error in checked.errors]


@pytest.mark.parametrize("check", [MAIN, STATUS])
def test_a_good_body_stays_as_it_is(check: Any) -> None:
    checked = check(GOOD)
    assert checked.value is GOOD
    assert (checked.unknown, checked.errors) == ((), ())


def test_main_bodies() -> None:
    spec = {"stopPolicy": "x", "cohortName": "-", "resourceGroups": [{"coveredResources": []}], "nonsense": 1}
    checked = MAIN(GOOD | {"spec": spec, "status": {"pendingWorkloads": "x", "other": 1}})
    assert errors(checked) == [
        'spec.stopPolicy: Unsupported value: "x": supported values: "None", "Hold", "HoldAndDrain"',
        f"spec.cohortName: Invalid value: \"-\": spec.cohortName in body should match '{SUBDOMAIN}'",
        f"{RESOURCES}: Invalid value: 0: {RESOURCES} in body should have at least 1 items",
        "spec.resourceGroups[0].flavors: Required value",
    ]
    assert checked.unknown == ("spec.nonsense",)
    assert "nonsense" not in checked.value["spec"]
    assert checked.value["status"] == {"pendingWorkloads": "x", "other": 1}


def test_status_bodies() -> None:
    condition = {"type": "Active", "status": "Maybe", "lastTransitionTime": "now", "reason": "", "message": ""}
    checked = STATUS(GOOD | {"spec": {"stopPolicy": "x"}, "status": {"conditions": [condition], "other": 1}})
    assert [error.path for error in checked.errors] == [
        "status.conditions[0].status",
        "status.conditions[0].lastTransitionTime",
        "status.conditions[0].reason",
        "status.conditions[0].reason",
    ]
    assert checked.unknown == ("status.other",)


def test_members_with_a_default_may_stay_absent_and_nulls_go() -> None:
    template = {"metadata": {"creationTimestamp": None}, "spec": {"containers": [{"name": "c"}]}}
    checked = compile_structural(WORKLOAD)({"metadata": {}, "spec": {"podSets": [{"template": template}]}})
    assert checked.errors == ()
    assert checked.value["spec"] == {"podSets": [{"template": {"metadata": {}, "spec": template["spec"]}}]}


def test_words_of_pods_are_not_the_business_of_the_schema() -> None:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "x"}}}], "restartPolicy": ""}}
    checked = compile_structural(WORKLOAD)({"spec": {"podSets": [{"template": template}]}})
    assert [error.path for error in checked.errors] == [
        "spec.podSets[0].template.spec.containers[0].resources.requests.cpu"
    ]


def test_metadata_is_checked_as_everybodys() -> None:
    checked = MAIN({"metadata": {"name": "x", "colour": "red"}, "spec": {}})
    assert checked.unknown == ("metadata.colour",)
    assert checked.value["metadata"] == {"name": "x"}
    with pytest.raises(DecodeError, match="cannot unmarshal number into Go struct field ObjectMeta"):
        MAIN({"metadata": {"name": 5}})


@pytest.mark.parametrize("document", [{}, {"spec": None}, {"metadata": None}, {"spec": 5}, {"status": 5}])
def test_any_document_is_checked(document: Any) -> None:
    MAIN(document)
    STATUS(document)
