"""Tests of which differences between podsets mean that their pods run on other nodes."""

from typing import Any

import msgspec
import pytest

from muster.api.kueue import PodSet
from muster.queueing.jobframework.matching import are_placed_alike


def podset(spec: dict[str, Any] | None = None, topology: dict[str, Any] | None = None, **fields: Any) -> PodSet:
    pod = {"containers": [{"name": "c", "image": "i"}]} | (spec or {})
    requests = {"topologyRequest": topology} if topology is not None else {}
    return msgspec.convert({"count": 1, "template": {"spec": pod}} | requests | fields, PodSet)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        pytest.param([podset()], [podset()], True, id="the same"),
        pytest.param([podset()], [podset(count=9)], True, id="another count"),
        pytest.param([podset()], [podset({"containers": []})], True, id="other containers"),
        pytest.param([podset()], [podset({"nodeSelector": {"a": "b"}})], False, id="a node selector"),
        pytest.param([podset()], [podset({"tolerations": [{"key": "k"}]})], False, id="a toleration"),
        pytest.param([podset()], [podset({"affinity": {"podAffinity": {}}})], False, id="an affinity"),
        pytest.param([podset()], [podset(topology={"required": "rack"})], False, id="a topology"),
        pytest.param(
            [podset(topology={"required": "rack"})], [podset(topology={"required": "block"})], False, id="a level"
        ),
        pytest.param([podset()], [podset(topology={"podIndexLabel": "index"})], True, id="the label of ranks alone"),
        pytest.param([podset()], [podset(), podset()], False, id="one more podset"),
        pytest.param([podset(), podset()], [podset(), podset({"nodeSelector": {"a": "b"}})], False, id="the second"),
    ],
)
def test_placed_alike(one: list[PodSet], other: list[PodSet], alike: bool) -> None:
    assert are_placed_alike(one, other) is alike
    assert are_placed_alike(other, one) is alike
