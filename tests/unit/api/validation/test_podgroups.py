"""Rules of PodGroups beyond their schemas."""

from typing import Any

import msgspec
import pytest

from muster.api.groups.scheduling_v1alpha2 import POD_GROUP as NATIVE_POD_GROUP
from muster.api.podgroups import coscheduling, kep, sigs, volcano
from muster.api.validation.podgroups import NATIVE, VALIDATIONS

KEP, KUBE_BATCH = kep.POD_GROUP, sigs.POD_GROUP
VOLCANO, COSCHEDULING = volcano.POD_GROUP, coscheduling.POD_GROUP
RULES = {**VALIDATIONS, NATIVE_POD_GROUP.resource: NATIVE}


def group(kind: Any, spec: Any) -> Any:
    return msgspec.convert({"metadata": {"name": "g", "namespace": "n"}, "spec": spec}, kind.type)


def said(errors: Any) -> list[str]:
    return [str(error.detail) for error in errors]


GANG = {"schedulingPolicy": {"gang": {"minCount": 3}}}


@pytest.mark.parametrize(
    ("kind", "spec", "fields"),
    [
        (KEP, {"minMembers": 3}, []),
        (KEP, {"minMember": 3}, []),
        (KEP, {"minMembers": 0}, []),
        (KEP, {}, ["spec.minMembers"]),
        (KEP, {"minMembers": 3, "minMember": 3}, []),
        (KEP, {"minMembers": 3, "minMember": 2}, ["spec.minMember"]),
        (KEP, {"minMembers": 3, "totalResources": {"cpu": "6", "memory": "1Gi"}}, []),
        (KEP, {"minMembers": 3, "totalResources": {"cpu": "-1"}}, ["spec.totalResources[cpu]"]),
        (KEP, {"minMembers": 3, "totalResources": {"cpu": "much"}}, ["spec.totalResources[cpu]"]),
        (KUBE_BATCH, {"minMember": 3}, []),
        (KUBE_BATCH, {}, []),
        (KUBE_BATCH, {"minMember": -1}, ["spec.minMember"]),
        (KUBE_BATCH, {"minMember": 3, "minMembers": 2}, ["spec.minMember"]),
        (VOLCANO, {"minMember": 3, "minTaskMember": {"driver": 1}}, []),
        (VOLCANO, {"minMember": 3, "minTaskMember": {"driver": -1}}, ["spec.minTaskMember[driver]"]),
        (VOLCANO, {"minResources": {"cpu": "-1"}}, ["spec.minResources[cpu]"]),
        (COSCHEDULING, {"minMember": 3, "scheduleTimeoutSeconds": 10}, []),
        (COSCHEDULING, {"minMember": 3, "scheduleTimeoutSeconds": -10}, ["spec.scheduleTimeoutSeconds"]),
        (NATIVE_POD_GROUP, GANG, []),
        (NATIVE_POD_GROUP, {"schedulingPolicy": {"basic": {}}}, []),
        (NATIVE_POD_GROUP, {"schedulingPolicy": {}}, ["spec.schedulingPolicy"]),
        (NATIVE_POD_GROUP, {"schedulingPolicy": {"basic": {}} | GANG["schedulingPolicy"]}, ["spec.schedulingPolicy"]),
        (
            NATIVE_POD_GROUP,
            {"schedulingPolicy": {"gang": {"minCount": 0}}},
            ["spec.schedulingPolicy.gang.minCount"],
        ),
    ],
)
def test_new(kind: Any, spec: Any, fields: list[str]) -> None:
    assert [error.path for error in RULES[kind.resource].create(group(kind, spec))] == fields


REFUSED = ["update to PodGroup is not supported"]


@pytest.mark.parametrize(
    ("kind", "old", "new", "expected"),
    [
        pytest.param(KEP, {"minMembers": 3}, {"minMembers": 3}, [], id="3.6-nothing"),
        pytest.param(KEP, {"minMembers": 3}, {"minMembers": 2}, REFUSED, id="3.6-minimum"),
        pytest.param(KEP, {"minMembers": 3}, {"minMember": 3}, [], id="3.6-the-other-spelling"),
        pytest.param(
            KEP,
            {"minMembers": 3, "totalResources": {"cpu": 2}},
            {"minMembers": 3, "totalResources": {"cpu": "2000m"}},
            [],
            id="3.6-the-same-amount",
        ),
        pytest.param(
            KEP, {"minMembers": 3}, {"minMembers": 3, "totalResources": {"cpu": 2}}, REFUSED, id="3.6-resources"
        ),
        pytest.param(
            KEP, {"minMembers": 3}, {"minMembers": 3, "policy": {"onBelowMin": "Fail"}}, REFUSED, id="3.6-policy"
        ),
        pytest.param(KUBE_BATCH, {"minMember": 3}, {"minMember": 2}, [], id="kube-batch reads it anew"),
        pytest.param(VOLCANO, {"minMember": 3}, {"minMember": 2}, [], id="Volcano reads it anew"),
        pytest.param(COSCHEDULING, {"minMember": 3}, {"minMember": 2}, [], id="the plugin reads it anew"),
        pytest.param(NATIVE_POD_GROUP, GANG, {"schedulingPolicy": {"basic": {}}}, ["field is immutable"], id="native"),
    ],
)
def test_changed(kind: Any, old: Any, new: Any, expected: list[str]) -> None:
    assert said(RULES[kind.resource].update(group(kind, new), group(kind, old))) == expected
