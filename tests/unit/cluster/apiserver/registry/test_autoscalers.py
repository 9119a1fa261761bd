"""Autoscalers of v1 and v2 are one object, seen through two views."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.apiserver.objects.views import take_main
from muster.cluster.apiserver.registry.autoscalers import convert_from_v1, convert_to_v1, take_status

META = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1"}
TARGET = {"kind": "Deployment", "name": "d"}


def cpu(percent: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Value", "value": "1Gi"}}}
PODS = {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}}


def stored(*metrics: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": META,
        "spec": {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 3, "metrics": list(metrics)},
        "status": {"desiredReplicas": 2} | status,
    }


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [((), None), ((cpu(60),), 60), ((MEMORY, cpu(70)), 70), ((MEMORY, PODS), None)],
)
def test_what_v1_shows(metrics: tuple[dict[str, Any], ...], expected: int | None) -> None:
    shown = convert_to_v1(stored(*metrics))
    assert shown["apiVersion"] == "autoscaling/v1"
    assert shown["metadata"] == META
    assert shown["spec"].pop("targetCPUUtilizationPercentage", None) == expected
    assert shown["spec"] == {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 3}


def test_what_v1_has_no_words_for_stays() -> None:
    old = stored(cpu(60), MEMORY)
    old["spec"]["behavior"] = {"scaleDown": {}}
    written = convert_to_v1(old)
    written["spec"] = {"scaleTargetRef": TARGET, "maxReplicas": 9, "targetCPUUtilizationPercentage": 50}
    taken = convert_from_v1(old, written)
    assert taken["apiVersion"] == "autoscaling/v2"
    assert taken["spec"] == {
        "scaleTargetRef": TARGET,
        "maxReplicas": 9,
        "metrics": [cpu(50), MEMORY],
        "behavior": {"scaleDown": {}},
    }
    assert taken["status"] == old["status"]


def test_a_new_one_is_stored_as_v2() -> None:
    written = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
               "spec": {"scaleTargetRef": TARGET, "maxReplicas": 2, "targetCPUUtilizationPercentage": 5}}  # fmt: skip
    assert convert_from_v1({}, written)["spec"] == {"scaleTargetRef": TARGET, "maxReplicas": 2, "metrics": [cpu(5)]}


def test_the_status_through_v1() -> None:
    old = stored(cpu(60), conditions=[{"type": "AbleToScale", "status": "True"}])
    written = convert_to_v1(old)
    written["status"] = {"currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 40}
    taken = take_status(old, written)
    assert convert_to_v1(taken)["status"] == written["status"]
    assert taken["status"]["conditions"] == [{"type": "AbleToScale", "status": "True"}]
    assert taken["spec"] == old["spec"]


METRICS = st.lists(st.sampled_from([MEMORY, PODS]), max_size=3)


@given(METRICS, st.none() | st.integers(1, 100))
def test_writing_what_was_read_changes_nothing(metrics: list[dict[str, Any]], percent: int | None) -> None:
    old = stored(*([] if percent is None else [cpu(percent)]), *metrics)
    if not old["spec"]["metrics"]:
        del old["spec"]["metrics"]
    assert convert_from_v1(old, convert_to_v1(old)) == take_main(old, old)
