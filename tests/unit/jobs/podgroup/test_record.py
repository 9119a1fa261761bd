"""PodGroups of every dialect in one record."""

from typing import Any

import pytest
from msgspec.structs import replace

from muster.api.kinds import Kind
from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano
from muster.api.podgroups.names import TAKEN_BACK_ANNOTATION
from muster.jobs.podgroup.census import Census
from muster.jobs.podgroup.groupstate import find_state
from muster.jobs.podgroup.record import KINDS, NATIVE, read
from muster.jobs.podgroup.reference import By


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        (kep.POD_GROUP, {"minMembers": 3, "totalResources": {"cpu": "6"}},
         {"by": By.ANNOTATION, "min_members": 3, "total_resources": {"cpu": "6"}, "policy": None}),
        (kep.POD_GROUP, {"minMember": 3}, {"min_members": 3}),
        (kep.POD_GROUP, {"minMembers": 1, "policy": {"onBelowMin": "Restart", "maxRestarts": 2}},
         {"policy": kep.PodGroupPolicy(on_below_min="Restart", max_restarts=2)}),
        (kubebatch.POD_GROUP, {"minMember": 2, "queue": "q", "priorityClassName": "high"},
         {"by": By.ANNOTATION, "min_members": 2, "queue": "q", "priority_class": "high"}),
        (sigs.POD_GROUP, {"minMembers": 2}, {"min_members": 2, "queue": ""}),
        (sigs.POD_GROUP, {"minMember": -2}, {"min_members": 0}),
        (volcano.POD_GROUP, {"minMember": 3, "minTaskMember": {"ps": 1, "worker": 2}},
         {"by": By.ANNOTATION, "min_members": 3, "roles": {"ps": 1, "worker": 2}, "queue": "default"}),
        (volcano.POD_GROUP, {"minMember": 2, "minTaskMember": {"ps": 1, "worker": 2}}, {"roles": {}}),
        (coscheduling.POD_GROUP, {"minMember": 3, "scheduleTimeoutSeconds": 10, "minResources": {"cpu": 1}},
         {"by": By.LABEL, "min_members": 3, "schedule_timeout_seconds": 10, "min_resources": {"cpu": 1}}),
        (NATIVE, {"schedulingPolicy": {"gang": {"minCount": 4}}, "priorityClassName": "high"},
         {"by": By.FIELD, "min_members": 4, "priority_class": "high"}),
        (NATIVE, {"schedulingPolicy": {"basic": {}}}, {"min_members": 0}),
        (NATIVE, {"schedulingPolicy": {"gang": {"minCount": 4}},
                  "schedulingConstraints": {"topology": [{"key": "rack"}]}},
         {"required_topology": "rack", "preferred_topology": ""}),
    ],
)  # fmt: skip
def test_specs(kind: Kind[Any], spec: Any, expected: dict[str, Any]) -> None:
    group = read(kind.typed({"metadata": {"namespace": "ns", "name": "g", "uid": "u"}, "spec": spec}))
    assert (group.kind, group.namespace, group.name, group.uid) == (kind, "ns", "g", "u")
    assert {name: getattr(group, name) for name in expected} == expected


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.group)
def test_what_was_lost_is_said_until_it_has_started_again(kind: Kind[Any]) -> None:
    group = read(kind.typed({"metadata": {"name": "g", "annotations": {TAKEN_BACK_ANNOTATION: "2 went"}}, "spec": {}}))
    group = replace(group, min_members=3)
    said = [find_state(group, census).message for census in (Census(pending=1), Census(pending=3), Census(admitted=3))]
    assert said == ["1 of 3 pods exist; 2 went", "", ""]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.group)
def test_topology_by_annotation(kind: Kind[Any]) -> None:
    annotations = {"kueue.x-k8s.io/podset-preferred-topology": "block"}
    group = read(kind.typed({"metadata": {"name": "g", "annotations": annotations}, "spec": {}}))
    assert (group.required_topology, group.preferred_topology) == ("", "block")
