"""Tests of what a pod takes of its node, if no workload with places accounts for the pod."""

from typing import Any

import msgspec
import pytest

from muster.api.core import Pod
from muster.queueing.topology.occupants import read_occupied

WORKLOAD = {"kueue.x-k8s.io/workload": "w"}
TOPOLOGY = {"kueue.x-k8s.io/podset-required-topology": "rack"}


def pod(phase: str = "Running", node: str = "n", annotations: dict[str, str] | None = None, **requests: Any) -> Pod:
    spec = {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]}
    metadata = {"name": "p", "annotations": annotations or {}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": phase}}, Pod)


@pytest.mark.parametrize(
    ("beside", "taken"),
    [
        pytest.param(
            pod(cpu="1500m", gpu=2), (("cpu", 1500), ("gpu", 2), ("pods", 1)), id="what it requests, and a pod"
        ),
        pytest.param(pod(), (("pods", 1),), id="it requests nothing"),
        pytest.param(pod(cpu="0", gpu=1), (("gpu", 1), ("pods", 1)), id="it requests none of a resource"),
        pytest.param(pod(gpu=2**50), (("gpu", 2**48), ("pods", 1)), id="more than any node has"),
        pytest.param(pod("Pending", cpu="1"), (("cpu", 1000), ("pods", 1)), id="it is bound and has not started"),
        pytest.param(pod("Succeeded", cpu="1"), None, id="it succeeded"),
        pytest.param(pod("Failed", cpu="1"), None, id="it failed"),
        pytest.param(pod("Pending", node="", cpu="1"), None, id="it is not bound"),
        pytest.param(pod(annotations=WORKLOAD | TOPOLOGY, cpu="1"), None, id="its workload has places"),
        pytest.param(pod(annotations=WORKLOAD, gpu=1), (("gpu", 1), ("pods", 1)), id="its workload has no places"),
        pytest.param(pod(annotations=TOPOLOGY, gpu=1), (("gpu", 1), ("pods", 1)), id="it belongs to no workload"),
    ],
)
def test_what_a_pod_takes_of_its_node(beside: Pod, taken: tuple[tuple[str, int], ...] | None) -> None:
    assert read_occupied(beside) == taken
