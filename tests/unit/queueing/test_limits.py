"""Requests above limits."""

from typing import Any

import msgspec
import pytest

from muster.api.kueue import PodSet
from muster.queueing.limits import limits_problem

FINE = {"requests": {"cpu": "1"}, "limits": {"cpu": "1000m", "memory": "1Gi"}}
CPU = {"requests": {"cpu": "200m", "memory": "1"}, "limits": {"cpu": "100m", "memory": "1"}}
BOTH = {"requests": {"memory": "2", "cpu": "2"}, "limits": {"cpu": "1", "memory": "1"}}


def podset(
    *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), pod: dict[str, Any] | None = None
) -> PodSet:
    def full(each: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
        return [{"name": "c", "resources": resources} for resources in each]

    spec = {"containers": full(containers), "initContainers": full(init), "resources": pod}
    return msgspec.convert({"template": {"spec": spec}}, PodSet)


def error(path: str, *names: str) -> str:
    shown = ",".join(f'"{name}"' for name in names)
    return f"spec.podSets{path}: Invalid value: [{shown}]: requests must not exceed its limits"


SEVERAL = [
    error("[1].template.spec.initContainers[0]", "cpu"),
    error("[1].template.spec.containers[1]", "cpu", "memory"),
    error("[1].template.spec.resources", "cpu"),
]


@pytest.mark.parametrize(
    ("podsets", "problem"),
    [
        ([podset(FINE, {}), podset({"requests": {"cpu": 5}}), podset({"limits": {"cpu": 5}})], ""),
        ([podset(CPU)], error("[0].template.spec.containers[0]", "cpu")),
        ([podset(FINE), podset(FINE, BOTH, init=(CPU,), pod=CPU)], f"[{', '.join(SEVERAL)}]"),
    ],
)
def test_requests_above_limits(podsets: list[PodSet], problem: str) -> None:
    assert limits_problem(podsets) == (problem and f"resources validation failed: {problem}")
