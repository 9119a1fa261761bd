"""What a pod of a JobSet says of its place; the words are those of upstream's webhook for pods."""

from typing import Any

import msgspec
import pytest

from muster.api.core import POD, Pod
from muster.api.jobset import names
from muster.jobs.jobset.exclusive import exclusive_affinity, is_placed_by_us, priority_label

RACK = "example.com/rack"
OWN = {
    "labelSelector": {"matchExpressions": [{"key": names.JOB_KEY, "operator": "In", "values": ["k"]}]},
    "topologyKey": RACK,
    "namespaceSelector": {},
}
OTHERS = {
    "labelSelector": {
        "matchExpressions": [
            {"key": names.JOB_KEY, "operator": "Exists"},
            {"key": names.JOB_KEY, "operator": "NotIn", "values": ["k"]},
            {"key": names.PRIORITY_LABEL, "operator": "In", "values": ["7"]},
        ]
    },
    "topologyKey": RACK,
    "namespaceSelector": {},
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LABELS = {names.JOB_KEY: "k", names.PRIORITY_LABEL: "7"}
EXCLUSIVE = {names.JOBSET_NAME: "js", names.EXCLUSIVE_TOPOLOGY: RACK}


def pod(annotations: dict[str, str], affinity: Any = None, **spec: Any) -> Pod:
    given = {"affinity": affinity} if affinity is not None else {}
    return POD.typed({"metadata": {"annotations": annotations, "labels": LABELS}, "spec": given | spec})


MINE = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("given", "near", "away"),
    [
        (None, [OWN], [OTHERS]),
        ({"podAffinity": {REQUIRED: [MINE]}, "podAntiAffinity": {REQUIRED: [MINE]}}, [MINE, OWN], [MINE, OTHERS]),
        ({"podAffinity": {REQUIRED: [OWN]}, "podAntiAffinity": {REQUIRED: [OTHERS]}}, [OWN], [OTHERS]),
    ],
    ids=["nothing said", "something said", "said already"],
)
def test_the_affinity(given: Any, near: Any, away: Any) -> None:
    affinity = msgspec.json.decode(msgspec.json.encode(exclusive_affinity(pod(EXCLUSIVE, given))))
    assert affinity == {"podAffinity": {REQUIRED: near}, "podAntiAffinity": {REQUIRED: away}}


def test_other_affinity_is_kept() -> None:
    node = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}}
    affinity = msgspec.json.decode(msgspec.json.encode(exclusive_affinity(pod(EXCLUSIVE, node))))
    assert affinity["nodeAffinity"] == node["nodeAffinity"]


@pytest.mark.parametrize(
    ("annotations", "ours", "exclusive"),
    [
        ({}, False, False),
        ({names.JOBSET_NAME: "js"}, True, False),
        (EXCLUSIVE, True, True),
        (EXCLUSIVE | {names.NODE_SELECTOR_STRATEGY: "true"}, False, True),
    ],
)
def test_whose_pods_are_meant(annotations: dict[str, str], ours: bool, exclusive: bool) -> None:
    found = pod(annotations)
    assert is_placed_by_us(found) is ours
    assert (exclusive_affinity(found) is not None) is exclusive


@pytest.mark.parametrize(
    ("priority", "label"), [(None, {}), (0, {names.PRIORITY_LABEL: "0"}), (-5, {names.PRIORITY_LABEL: "-5"})]
)
def test_the_priority(priority: int | None, label: dict[str, str]) -> None:
    spec = {} if priority is None else {"priority": priority}
    assert priority_label(pod({names.JOBSET_NAME: "js"}, **spec)) == label
