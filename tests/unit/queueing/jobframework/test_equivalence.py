"""Tests of whether a workload still is what its job requests."""

from typing import Any

import msgspec
import pytest

from muster.api.kueue import PodSet
from muster.queueing.jobframework.equivalence import are_equivalent, remove_repeated_variables

SPOT = {"key": "instance", "operator": "Equal", "value": "spot", "effect": "NoSchedule"}


def podset(*, container: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **fields: Any) -> PodSet:
    pod = {"containers": [{"name": "c", "image": "i", **(container or {})}], **(spec or {})}
    return msgspec.convert({"count": 10, "minCount": 5, "template": {"spec": pod}, **fields}, PodSet)


def requests(kind: str, cpu: Any) -> dict[str, Any]:
    return {"resources": {kind: {"cpu": cpu}}}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param([podset(name="a")], [podset(name="b")], True, id="names do not count"),
        pytest.param([podset(minCount=5)], [podset(minCount=2)], False, id="least count"),
        pytest.param([podset()], [podset(minCount=None)], False, id="no least count"),
        pytest.param([podset()], [podset(count=20)], False, id="count"),
        pytest.param([podset()], [podset(spec={"nodeSelector": {"k": "v"}})], True, id="node selectors do not count"),
        pytest.param([podset()], [podset(spec={"priorityClassName": "high"})], True, id="priority does not count"),
        pytest.param([podset(container=requests("requests", 1))], [podset(container=requests("requests", 2))], False,
                     id="requests"),
        pytest.param([podset(container=requests("limits", "1"))], [podset(container=requests("requests", "1"))], False,
                     id="limits are not requests"),
        pytest.param([podset(container=requests("requests", "0.5"))], [podset(container=requests("requests", "500m"))],
                     True, id="the same amount written otherwise"),
        pytest.param([podset(spec={"initContainers": [{"name": "i", **requests("requests", 1)}]})],
                     [podset(spec={"initContainers": [{"name": "i", **requests("requests", 2)}]})], False,
                     id="init containers"),
        pytest.param([podset(container={"image": "v1"})], [podset(container={"image": "v2"})], False, id="image"),
        pytest.param([podset(spec={"tolerations": [SPOT]})], [podset()], False, id="tolerations"),
        pytest.param([podset()], [podset(), podset()], False, id="number of podsets"),
        pytest.param([podset(), podset(count=20)], [podset(count=20), podset()], False, id="order"),
        pytest.param([podset(), podset(count=20)], [podset(), podset(count=30)], False, id="the second of two"),
        pytest.param([podset(container={"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]})],
                     [podset(container={"env": [{"name": "A", "value": "2"}]})], True, id="the last one counts"),
    ],
)  # fmt: skip
def test_pitfall_36_what_is_compared(one: list[PodSet], other: list[PodSet], same: bool) -> None:
    assert are_equivalent(one, other) is same
    assert are_equivalent(other, one) is same


def test_pitfall_36_admission_adds_tolerations() -> None:
    assert are_equivalent([podset()], [podset(spec={"tolerations": [SPOT]})], admitted=True)
    assert not are_equivalent([podset()], [podset(count=3)], admitted=True)


def test_pitfall_37_a_change_of_a_suspended_job_is_one_of_the_workload() -> None:
    assert not are_equivalent([podset(container={"command": ["a"]})], [podset(container={"command": ["b"]})])


def test_environment_variables_are_kept_once_in_their_first_place() -> None:
    names = ["A", "B", "A"]
    env = [{"name": name, "value": str(index)} for index, name in enumerate(names)]
    clean = remove_repeated_variables(
        podset(container={"env": env}, spec={"initContainers": [{"name": "i", "env": env}]})
    )
    for container in (*clean.template.spec.containers, *clean.template.spec.init_containers):
        assert [(variable.name, variable.value) for variable in container.env] == [("A", "2"), ("B", "1")]
