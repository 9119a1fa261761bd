"""Tests of requests above limits, or beyond LimitRanges."""

from typing import Any

import msgspec
import pytest

from muster.api.core.quota import LimitRangeItem
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


ABOVE, BELOW = "requests must not be above the limitRange max", "requests must not be below the limitRange min"
FIRST = "spec.podSets[0].template.spec.containers[0]"


def item(type_: str = "Container", **bounds: Any) -> LimitRangeItem:
    return msgspec.convert({"type": type_, **bounds}, LimitRangeItem)


@pytest.mark.parametrize(
    ("resources", "items", "problem"),
    [
        (FINE, [item(max={"cpu": "1", "memory": "1Gi"}, min={"cpu": "1"})], ""),
        ({}, [item(max={"cpu": "1"}, min={"cpu": "1"})], ""),
        ({"requests": {"cpu": "2"}}, [item(max={"cpu": "1"})], f'{FIRST}: Invalid value: ["cpu"]: {ABOVE}'),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, [item(max={"cpu": "1"})],
         f'{FIRST}: Invalid value: ["cpu"]: {ABOVE}'),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}, [item(min={"cpu": "2"})],
         f'{FIRST}: Invalid value: ["cpu"]: {BELOW}'),
        ({"requests": {"cpu": "2", "memory": "4"}}, [item(max={"cpu": "3"}), item(max={"memory": "3", "cpu": "1"})],
         f'{FIRST}: Invalid value: ["cpu","memory"]: {ABOVE}'),
        ({"requests": {"cpu": "2", "memory": "1"}}, [item(max={"cpu": "1"}, min={"memory": "2"})],
         f'[{FIRST}: Invalid value: ["cpu"]: {ABOVE}, {FIRST}: Invalid value: ["memory"]: {BELOW}]'),
        ({"requests": {"cpu": "2"}}, [item("Pod", max={"cpu": "1"})],
         f'spec.podSets[0].template.spec: Invalid value: ["cpu"]: {ABOVE}'),
        ({"limits": {"cpu": "2"}}, [item("Pod", min={"cpu": "3"})],
         f'spec.podSets[0].template.spec: Invalid value: ["cpu"]: {BELOW}'),
        ({"requests": {"cpu": "2"}}, [item("PersistentVolumeClaim", max={"cpu": "1"})], ""),
    ],
    ids=["within", "says nothing", "request above", "limit above", "request below", "the least of several", "both ways",
         "pod above", "a limit is a request: pod below", "of other kinds"],
)  # fmt: skip
def test_requests_beyond_limit_ranges(resources: Any, items: list[LimitRangeItem], problem: str) -> None:
    texts = f"resources didn't satisfy LimitRange constraints: {problem}"
    assert limits_problem([podset(resources)], items) == (problem and texts)


def test_limits_are_looked_at_first() -> None:
    problem = error("[0].template.spec.containers[0]", "cpu")
    assert limits_problem([podset(CPU)], [item(max={"cpu": "1m"})]) == f"resources validation failed: {problem}"
