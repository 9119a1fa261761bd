"""Tests of what pods count in quotas."""

from typing import Any

import msgspec
import pytest

from muster.api.config.types import Resources
from muster.api.core import PodSpec
from muster.api.values.quantity import QuantityError
from muster.queueing.requests import ResourceRules, requests_of, scale_usage

MI = 2**20


def pod(*containers: dict[str, Any], **spec: Any) -> PodSpec:
    def full(container: dict[str, Any]) -> dict[str, Any]:
        return {"name": "c", "resources": container}

    spec["initContainers"] = [full(c) | c.pop("more", {}) for c in spec.get("initContainers", [])]
    return msgspec.convert({"containers": [full(c) for c in containers], **spec}, PodSpec)


def rules(**resources: Any) -> ResourceRules:
    return ResourceRules.of(msgspec.convert(resources, Resources))


CPU = {"requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(pod(CPU, CPU), {"cpu": 2000}, id="containers together"),
        pytest.param(pod({"requests": {"cpu": "1.5m", "memory": "0.5"}}), {"cpu": 2, "memory": 1}, id="rounded up"),
        pytest.param(pod({"limits": {"cpu": "2"}, "requests": {"memory": "1Mi"}}), {"cpu": 2000, "memory": MI},
                     id="limits where requests are missing"),
        pytest.param(pod({"limits": {"cpu": 2}, "requests": {"cpu": 1}}), {"cpu": 1000}, id="requests before limits"),
        pytest.param(pod(CPU, initContainers=[{"requests": {"cpu": "3"}}]), {"cpu": 3000}, id="the greatest moment"),
        pytest.param(pod(CPU, initContainers=[{"requests": {"cpu": "2"}, "more": {"restartPolicy": "Always"}}]),
                     {"cpu": 3000}, id="sidecars stay"),
        pytest.param(pod(CPU, overhead={"cpu": "250m", "memory": "1Mi"}), {"cpu": 1250, "memory": MI}, id="overhead"),
        pytest.param(pod(CPU, resources={"requests": {"cpu": "5"}}), {"cpu": 5000}, id="resources of the pod"),
        pytest.param(pod({"requests": {"cpu": "-1"}}), {"cpu": 0}, id="never below zero"),
        pytest.param(pod({}), {}, id="nothing"),
        pytest.param(pod({"requests": {"gpu": "0"}}), {"gpu": 0}, id="pitfall 27: nothing of a resource"),
    ],
)  # fmt: skip
def test_pitfall_28_requests_of_a_pod(spec: PodSpec, expected: dict[str, int]) -> None:
    assert requests_of(spec, ResourceRules()) == expected


def test_resources_that_do_not_count() -> None:
    spec = pod({"requests": {"cpu": "1", "example.com/nic": "2", "example.org/nic": "2"}})
    assert requests_of(spec, rules(excludeResourcePrefixes=["example.com/"])) == {"cpu": 1000, "example.org/nic": 2}


MIG = {"input": "nvidia.com/mig-1g.5gb", "outputs": {"example.com/gpu-memory": "5Gi", "example.com/credits": "10"}}


@pytest.mark.parametrize(
    ("transformations", "requests", "expected"),
    [
        pytest.param([MIG | {"strategy": "Replace"}], {"cpu": "1", "nvidia.com/mig-1g.5gb": "2"},
                     {"cpu": 1000, "example.com/gpu-memory": 10 * 2**30, "example.com/credits": 20}, id="replaced"),
        pytest.param([MIG], {"nvidia.com/mig-1g.5gb": "1"},
                     {"nvidia.com/mig-1g.5gb": 1, "example.com/gpu-memory": 5 * 2**30, "example.com/credits": 10},
                     id="kept beside"),
        pytest.param([{"input": "cpu", "outputs": {"credits": "2.5"}}], {"cpu": "1500m"}, {"cpu": 1500, "credits": 4},
                     id="exact until the end, then rounded up"),
        pytest.param([{"input": "gpu", "outputs": {"cpu": "1500m"}, "strategy": "Replace"}], {"cpu": "1", "gpu": "2"},
                     {"cpu": 4000}, id="added to what is asked for itself"),
        pytest.param([{"input": "gpu", "outputs": {"vram": "1"}, "multiplyBy": "gb", "strategy": "Replace"}],
                     {"gpu": "2", "gb": "8"}, {"gb": 8, "vram": 16}, id="multiplied"),
        pytest.param([{"input": "gpu", "outputs": {"vram": "1"}, "multiplyBy": "gb"}], {"gpu": "2"},
                     {"gpu": 2, "vram": 2}, id="nothing to multiply with"),
        pytest.param([{"input": "gpu", "outputs": {"gpu": "3"}, "strategy": "Replace"}], {"gpu": "2"}, {"gpu": 6},
                     id="made into more of itself"),
        pytest.param([{"input": "a", "outputs": {"x": "5"}, "strategy": "Replace"},
                      {"input": "b", "outputs": {"x": "-3"}, "strategy": "Replace"}], {"a": "1", "b": "1"}, {"x": 2},
                     id="an allowance"),
        pytest.param([{"input": "b", "outputs": {"x": "-3"}, "strategy": "Replace"}], {"b": "1", "x": "2"}, {"x": 2},
                     id="an allowance takes nothing from what is asked for itself"),
        pytest.param([MIG], {"cpu": "1"}, {"cpu": 1000}, id="nothing to transform"),
    ],
)  # fmt: skip
def test_transformations(
    transformations: list[dict[str, Any]], requests: dict[str, str], expected: dict[str, int]
) -> None:
    assert requests_of(pod({"requests": requests}), rules(transformations=transformations)) == expected


def test_what_is_no_quantity_is_said() -> None:
    with pytest.raises(QuantityError):
        requests_of(pod({"requests": {"cpu": "many"}}), ResourceRules())


@pytest.mark.parametrize(
    ("count", "wanted", "expected"),
    [(4, 4, {"cpu": 800}), (4, 1, {"cpu": 200}), (4, 0, {"cpu": 0}), (0, 0, {"cpu": 800})],
)
def test_pitfall_29_scaled(count: int, wanted: int, expected: dict[str, int]) -> None:
    assert scale_usage({"cpu": 800}, count, wanted) == expected
